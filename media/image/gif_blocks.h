// The blocks of a GIF (GIF89a specification, section 11 and following). Internal to media/image.

#pragma once

#include <cstdint>
#include <optional>

#include "io/bytes.h"

namespace energon {

struct GifBlocks {
  std::int64_t frames = 0;  ///< image descriptors
  /// Index of the colour of the first image that is transparent, from its graphic control
  /// extension.
  std::optional<int> transparent = std::nullopt;
};

/// Walks the blocks without expanding them; ends where they are damaged. Requires: `encoded` begins
/// with a GIF signature.
GifBlocks gif_blocks(ByteView encoded);

}  // namespace energon
