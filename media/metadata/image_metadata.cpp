#include "media/metadata/image_metadata.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/image/image_info.h"
#include "media/metadata/header_bytes.h"
#include "media/metadata/tiff_header.h"

namespace energon {
namespace {

// The components that the frame header (SOF0 to SOF15, but for DHT, JPG and DAC) names.
int jpeg_components(ByteView encoded) {
  const HeaderBytes bytes(encoded, "JPEG", false);
  std::uint64_t at = 2;
  while (true) {
    if (bytes.u8(at) != 0xFF || bytes.u8(at + 1) == 0xFF || bytes.u8(at + 1) == 0) {
      ++at;  // fill bytes, and what lies between segments
      continue;
    }
    const unsigned marker = bytes.u8(at + 1);
    if (marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC) {
      return bytes.u8(at + 9);
    }
    const bool is_alone = marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8);
    at += is_alone ? 2U : 2U + bytes.u16(at + 2);
  }
}

std::string jpeg_mode(ByteView encoded) {
  const int components = jpeg_components(encoded);
  return components == 1 ? "L" : components == 4 ? "CMYK" : "RGB";
}

// By bit depth and colour type in the chunk IHDR.
std::string png_mode(ByteView encoded) {
  const HeaderBytes bytes(encoded, "PNG", false);
  const int depth = bytes.u8(24);
  switch (bytes.u8(25)) {
    case 0:
      return depth == 1 ? "1" : depth == 16 ? "I;16" : "L";
    case 3:
      return "P";
    case 4:
      return depth == 16 ? "RGBA" : "LA";
    case 6:
      return "RGBA";
    default:
      return "RGB";
  }
}

// Whether entry i is the gray i for all of the 2^bits colours at `at`.
bool is_gray_ramp(const HeaderBytes& bytes, std::uint64_t at, unsigned flags) {
  const unsigned colors = 2U << (flags & 7U);
  for (unsigned i = 0; i < colors; ++i) {
    for (unsigned channel = 0; channel < 3; ++channel) {
      if (bytes.u8(at + std::uint64_t{3} * i + channel) != i) {
        return false;
      }
    }
  }
  return true;
}

// Where the first image begins, behind extensions.
std::uint64_t first_gif_image(const HeaderBytes& bytes, std::uint64_t at) {
  constexpr unsigned kExtension = 0x21;
  constexpr unsigned kImage = 0x2C;
  while (bytes.u8(at) == kExtension) {
    at += 2;
    while (const unsigned size = bytes.u8(at)) {
      at += 1 + size;
    }
    ++at;
  }
  if (bytes.u8(at) != kImage) {
    throw Error(ErrorCode::kCorruptData, fmt::format("the GIF has no image: byte {} is {:#04x}, "
                                                     "expected {:#04x}",
                                                     at, bytes.u8(at), kImage));
  }
  return at;
}

// An image without colours of its own, or with those of a gray image, is "L". The canvas grows to
// what the first image covers.
void read_gif(ByteView encoded, MediaMetadata& metadata) {
  constexpr unsigned kHasPalette = 0x80;
  constexpr std::uint64_t kPalette = 13;
  const HeaderBytes bytes(encoded, "GIF", true);
  const unsigned flags = bytes.u8(10);
  const bool has_palette = (flags & kHasPalette) != 0;
  const std::uint64_t image =
      first_gif_image(bytes, kPalette + (has_palette ? 6U << (flags & 7U) : 0U));
  metadata.width =
      std::max<std::int64_t>(*metadata.width, bytes.u16(image + 1) + bytes.u16(image + 5));
  metadata.height =
      std::max<std::int64_t>(*metadata.height, bytes.u16(image + 3) + bytes.u16(image + 7));
  const unsigned image_flags = bytes.u8(image + 9);
  const bool is_gray = (image_flags & kHasPalette) != 0
                           ? is_gray_ramp(bytes, image + 10, image_flags)
                           : !has_palette || is_gray_ramp(bytes, kPalette, flags);
  metadata.mode = is_gray ? "L" : "P";
}

// A canvas of an animation has alpha if the chunk VP8X says so.
std::string webp_mode(ByteView encoded, const ImageInfo& info) {
  constexpr unsigned kAlpha = 0x10;
  constexpr unsigned kAnimation = 0x02;
  const HeaderBytes bytes(encoded, "WebP", true);
  const bool is_extended = as_text(encoded).substr(12, 4) == "VP8X";
  const unsigned flags = is_extended ? bytes.u8(20) : 0;
  const bool has_alpha = (flags & kAnimation) != 0 ? (flags & kAlpha) != 0 : info.channels == 4;
  return has_alpha ? "RGBA" : "RGB";
}

}  // namespace

MediaMetadata read_image_metadata(ByteView encoded, const DecodeLimits& limits) {
  MediaMetadata metadata{.kind = MediaKind::kImage};
  if (image_format_of(encoded) == ImageFormat::kTiff) {
    TiffHeader header = read_tiff_header(encoded);
    check_pixels("the TIFF", static_cast<std::uint64_t>(header.width),
                 static_cast<std::uint64_t>(header.height), limits);
    metadata.width = header.width;
    metadata.height = header.height;
    metadata.format = "TIFF";
    metadata.mode = std::move(header.mode);
    return metadata;
  }
  const ImageInfo info = probe_image(encoded, limits);
  metadata.width = info.width;
  metadata.height = info.height;
  metadata.format = info.format == ImageFormat::kWebp ? "WEBP" : to_string(info.format);
  switch (info.format) {
    case ImageFormat::kJpeg:
      metadata.mode = jpeg_mode(encoded);
      break;
    case ImageFormat::kPng:
      metadata.mode = png_mode(encoded);
      break;
    case ImageFormat::kWebp:
      metadata.mode = webp_mode(encoded, info);
      break;
    case ImageFormat::kGif:
      read_gif(encoded, metadata);
      break;
    case ImageFormat::kTiff:
      break;  // above
  }
  return metadata;
}

}  // namespace energon
