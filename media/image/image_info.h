// What the header of an image says.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/bytes.h"
#include "media/decode_limits.h"

namespace energon {

/// The image formats that are read. They are told apart by their first bytes, never by the name of
/// a part.
///
/// JPEG: ITU-T T.81. PNG: W3C PNG third edition. WebP: RFC 9649. GIF: GIF89a. TIFF: TIFF 6.0 and
/// BigTIFF.
enum class ImageFormat : std::uint8_t { kJpeg, kPng, kWebp, kGif, kTiff };

/// "JPEG", "PNG", "WebP", "GIF", "TIFF".
std::string_view to_string(ImageFormat format);

/// The format that the first bytes are of; nothing if they are of none. Says nothing of the rest.
/// Thread-safe.
std::optional<ImageFormat> image_format_of(ByteView encoded);

/// The name of a format that begins so and is not read, such as "BMP"; empty if none is known.
std::string_view foreign_image_format(ByteView encoded);

struct ImageInfo {
  ImageFormat format = ImageFormat::kJpeg;
  std::int64_t width = 0;   ///< in pixels, as stored: before the orientation is applied
  std::int64_t height = 0;  ///< likewise
  /// 1 gray, 2 gray and alpha, 3 RGB, 4 RGB and alpha. Palettes count as 3 or, with a transparent
  /// entry, 4; CMYK counts as 3, for it is given as RGB.
  int channels = 0;
  int bits = 8;             ///< of a channel when it is read: 8 or 16. Fewer are widened to 8.
  int orientation = 1;      ///< 1..8 as EXIF numbers them; 1 where absent or damaged. See below.
  std::int64_t frames = 1;  ///< images in the file; only the first is decoded
};

/// The orientation that is applied when an image is decoded, else 1. That of a TIFF always is:
/// Pillow turns TIFFs when it loads them, and so does Energon, which uses it. Other formats are
/// turned only if `apply_orientation` is set.
constexpr int applied_orientation(const ImageInfo& info, bool apply_orientation) {
  return apply_orientation || info.format == ImageFormat::kTiff ? info.orientation : 1;
}

/// Width and height in pixels.
struct ImageSize {
  std::int64_t width = 0;
  std::int64_t height = 0;
};

/// The size of the whole image when it is decoded, after applied_orientation().
constexpr ImageSize decoded_size(const ImageInfo& info, bool apply_orientation) {
  constexpr int kFirstTurned = 5;  // from here on, orientations exchange the sides
  if (applied_orientation(info, apply_orientation) >= kFirstTurned) {
    return {.width = info.height, .height = info.width};
  }
  return {.width = info.width, .height = info.height};
}

/// Reads headers, not pixels. Throws Error: kCorruptData for what is no image or has a damaged
/// header, kUnsupported for formats and variants that are not read, kResourceExhausted above
/// `limits`. Thread-safe.
ImageInfo probe_image(ByteView encoded, const DecodeLimits& limits = {});

}  // namespace energon
