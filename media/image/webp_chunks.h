// The RIFF chunks of a WebP (RFC 9649, section 2). Internal to media/image.

#pragma once

#include <cstdint>
#include <optional>

#include "io/bytes.h"

namespace energon {

/// One image of an animation.
struct WebpFrame {
  ByteView image;  ///< the chunks that WebPDecode takes: ALPH and VP8, or VP8L
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
};

struct WebpChunks {
  int orientation = 1;      ///< of the chunk EXIF
  std::int64_t frames = 0;  ///< chunks ANMF; 0 in a still image
  std::optional<WebpFrame> first_frame = std::nullopt;
};

/// Walks the chunks; ends where they are damaged.
WebpChunks webp_chunks(ByteView encoded);

}  // namespace energon
