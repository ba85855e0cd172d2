// The codecs of this build. Internal to media/image.

#pragma once

#include <memory>

#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/image/image_reader.h"

namespace energon {

/// Opens `encoded` with the codec of its format. Throws Error as probe_image(); kUnsupported that
/// names the package if this build lacks the codec.
std::unique_ptr<ImageReader> open_image(ByteView encoded, const DecodeLimits& limits);

}  // namespace energon
