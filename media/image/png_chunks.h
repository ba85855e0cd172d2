// What the chunks of a PNG tell besides its pixels (W3C PNG third edition, section 5). Internal to
// media/image.

#pragma once

#include <cstdint>

#include "io/bytes.h"

namespace energon {

struct PngExtras {
  int orientation = 1;      ///< of the chunk eXIf
  std::int64_t frames = 1;  ///< of the chunk acTL of an animation
};

/// Walks the chunks without checking or expanding them; ends where they are damaged.
PngExtras png_extras(ByteView encoded);

}  // namespace energon
