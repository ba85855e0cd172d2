// Pixels as a PNG file.

#pragma once

#include <cstdint>
#include <string>

#include "io/bytes.h"

namespace energon::cli {

/// `pixels` is uint8 (height, width, channels): gray, gray and alpha, RGB or RGBA. Throws Error:
/// kInvalidArgument for other numbers of channels or bytes and for sides that are not 1 to 65,535,
/// kInternal if libpng fails.
std::string png_of_pixels(ByteView pixels, std::int64_t width, std::int64_t height, int channels);

}  // namespace energon::cli
