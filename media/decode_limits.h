// Limits on what encoded data may claim, so that a bomb is refused before memory is allocated.

#pragma once

#include <cstddef>
#include <cstdint>

namespace energon {

struct MemoryLimit;  // io/byte_cursor.h

/// Decoders throw Error (kResourceExhausted), which names the limit, for data that exceeds one. The
/// defaults are far above real training data.
struct DecodeLimits {
  std::uint64_t max_pixels = std::uint64_t{1} << 28;  ///< of one image or video frame
  /// Bytes of one decoded value: pixels, sound, arrays, expanded text.
  std::uint64_t max_bytes = std::uint64_t{1} << 31;
  /// Nesting of lists and mappings. A worker cannot send more than 64 levels.
  int max_depth = 60;
};

/// limits.max_bytes, for readers outside media.
MemoryLimit memory_limit(const DecodeLimits& limits);

/// Throws Error (kResourceExhausted) if `bytes` exceeds limits.max_bytes. `what` begins the
/// message: "the array".
void check_decoded_bytes(const char* what, std::uint64_t bytes, const DecodeLimits& limits);

/// Throws Error (kResourceExhausted) if width * height exceeds limits.max_pixels, and Error
/// (kCorruptData) if one of them is 0.
void check_pixels(const char* what, std::uint64_t width, std::uint64_t height,
                  const DecodeLimits& limits);

}  // namespace energon
