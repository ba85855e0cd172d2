#include "media/decode_limits.h"

#include <fmt/format.h>

#include "io/byte_cursor.h"
#include "io/error.h"

namespace energon {

MemoryLimit memory_limit(const DecodeLimits& limits) {
  return {.bytes = limits.max_bytes, .option = "DecodeLimits::max_bytes"};
}

void check_decoded_bytes(const char* what, std::uint64_t bytes, const DecodeLimits& limits) {
  memory_limit(limits).check(what, bytes);
}

void check_pixels(const char* what, std::uint64_t width, std::uint64_t height,
                  const DecodeLimits& limits) {
  if (width == 0 || height == 0) {
    throw Error(ErrorCode::kCorruptData, fmt::format("{} has {} x {} pixels", what, width, height));
  }
  if (width > limits.max_pixels / height) {
    throw Error(ErrorCode::kResourceExhausted,
                fmt::format("{} has {} x {} pixels, the limit is {} (DecodeLimits::max_pixels)",
                            what, width, height, limits.max_pixels));
  }
}

}  // namespace energon
