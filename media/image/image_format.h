// The image formats that are read, and how they are told apart: by their first bytes, never by the
// name of a part.
//
// JPEG: ITU-T T.81. PNG: W3C PNG third edition. WebP: RFC 9649. GIF: GIF89a. TIFF: TIFF 6.0 and
// BigTIFF.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/bytes.h"

namespace energon {

enum class ImageFormat : std::uint8_t { kJpeg, kPng, kWebp, kGif, kTiff };

/// "JPEG", "PNG", "WebP", "GIF", "TIFF".
std::string_view to_string(ImageFormat format);

/// The format that the first bytes are of; nothing if they are of none. Says nothing of the rest.
/// Thread-safe.
std::optional<ImageFormat> image_format_of(ByteView encoded);

/// The name of a format that begins so and is not read, such as "BMP"; empty if none is known.
std::string_view foreign_image_format(ByteView encoded);

}  // namespace energon
