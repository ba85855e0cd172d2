// Rectangles of pixels.

#pragma once

#include <cstdint>

namespace energon {

/// Columns [x, x + width) and rows [y, y + height).
template <class Number>
struct BoxOf {
  Number x = 0;
  Number y = 0;
  Number width = 0;
  Number height = 0;

  bool operator==(const BoxOf&) const = default;
};

using PixelBox = BoxOf<std::int64_t>;
/// Its edges may lie inside of pixels.
using FractionalBox = BoxOf<double>;

}  // namespace energon
