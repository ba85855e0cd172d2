// What an image or sound says about itself in its first bytes: JPEG, PNG, WAV. Nothing is decoded.

#pragma once

#include <optional>
#include <string>

#include "io/bytes.h"

namespace energon::cli {

/// Such as "JPEG image, 640 x 480, 3 channels"; nothing if it is neither, or broken.
std::optional<std::string> describe_media(ByteView bytes);

}  // namespace energon::cli
