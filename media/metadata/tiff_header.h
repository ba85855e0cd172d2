// What the first directory of a TIFF says of its image (TIFF 6.0, BigTIFF), and what Pillow calls
// such an image. Internal to media/metadata.

#pragma once

#include <cstdint>
#include <string>

#include "io/bytes.h"

namespace energon {

struct TiffHeader {
  std::int64_t width = 0;  ///< of the image as it is shown: its orientation is applied
  std::int64_t height = 0;
  std::string mode = {};
};

/// Reads tags only. Requires: `encoded` begins with the signature of a TIFF. Throws Error:
/// kCorruptData, kUnsupported for samples that Pillow has no mode for.
TiffHeader read_tiff_header(ByteView encoded);

}  // namespace energon
