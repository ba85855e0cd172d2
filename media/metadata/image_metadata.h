// Reads the size, format and mode of an image from its header, with the names of Pillow, which
// Energon's tables use.

#pragma once

#include "io/bytes.h"
#include "io/index/media_metadata.h"
#include "media/decode_limits.h"

namespace energon {

/// Does not decode pixels, so damage after the header is not noticed. Formats: "JPEG", "PNG",
/// "WEBP", "GIF", "TIFF". Modes: "1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16" and, for a
/// TIFF, "I;16B", "I", "F", "La", "PA", "YCbCr", "LAB". Throws Error as probe_image()
/// (media/image/image_decoder.h). Thread-safe.
MediaMetadata read_image_metadata(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
