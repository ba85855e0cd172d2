// What the header of an image says.

#pragma once

#include <cstdint>

#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_format.h"

namespace energon {

struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  std::int64_t width = 0;   ///< in pixels, as stored: before the orientation is applied
  std::int64_t height = 0;  ///< likewise
  /// 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha. Palettes count as 3 or, with a transparent
  /// entry, 4; CMYK counts as 3, for it is given as RGB.
  int channels = 0;
  int bits = 8;             ///< of a channel when it is read: 8 or 16. Fewer are widened to 8.
  int orientation = 1;      ///< 1..8 as EXIF numbers them; 1 where absent or damaged
  std::int64_t frames = 1;  ///< images in the file; only the first is decoded
};

/// Reads headers, not pixels. Throws Error: kCorruptData for what is no image or has a damaged
/// header, kUnsupported for formats and variants that are not read, kResourceExhausted above
/// `limits`. Thread-safe.
ImageInfo probe_image(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
