// Sizes of images in memory that cannot overflow. Internal to media/image.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

#include "media/decode_limits.h"

namespace energon {

/// width * height * pixel_bytes, or the greatest number where that is more. None is negative.
constexpr std::uint64_t image_bytes(std::int64_t width, std::int64_t height,
                                    std::int64_t pixel_bytes) {
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t bytes = 1;
  for (const std::int64_t factor : {width, height, pixel_bytes}) {
    const auto next = static_cast<std::uint64_t>(factor);
    bytes = next != 0 && bytes > kMost / next ? kMost : bytes * next;
  }
  return bytes;
}

/// check_decoded_bytes() of that.
inline void check_image_bytes(const char* what, std::int64_t width, std::int64_t height,
                              std::int64_t pixel_bytes, const DecodeLimits& limits) {
  check_decoded_bytes(what, image_bytes(width, height, pixel_bytes), limits);
}

}  // namespace energon
