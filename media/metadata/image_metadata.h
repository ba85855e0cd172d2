// The size, format and mode of an image, by its header alone; as Pillow names them, because
// Energon's tables have them so.

#pragma once

#include "io/bytes.h"
#include "io/index/media_metadata.h"
#include "media/decode_limits.h"

namespace energon {

/// Pixels are not decoded, so damage after the header is not noticed. Formats: "JPEG", "PNG",
/// "WEBP", "GIF", "TIFF". Modes: "1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16" and, of a TIFF,
/// "I;16B", "I", "F", "La", "PA", "YCbCr", "LAB". Throws Error as probe_image()
/// (media/image/image_decoder.h). Thread-safe.
MediaMetadata read_image_metadata(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
