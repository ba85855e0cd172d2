#include "media/image/png_chunks.h"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "media/image/orientation.h"

namespace energon {
namespace {

constexpr std::size_t kSignatureBytes = 8;
constexpr std::size_t kFrameBytes = 12;  // length, type and checksum of a chunk

std::uint32_t big_endian_u32(ByteView bytes, std::size_t at) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    value = (value << 8U) | std::to_integer<std::uint32_t>(bytes[at + i]);
  }
  return value;
}

}  // namespace

PngExtras png_extras(ByteView encoded) {
  PngExtras extras;
  std::size_t at = kSignatureBytes;
  while (at + kFrameBytes <= encoded.size()) {
    const std::size_t length = big_endian_u32(encoded, at);
    const std::string_view type = as_text(encoded).substr(at + 4, 4);
    if (length > encoded.size() - at - kFrameBytes || type == "IEND") {
      break;
    }
    const ByteView content = encoded.subspan(at + 8, length);
    if (type == "eXIf") {
      extras.orientation = exif_orientation(content);
    } else if (type == "acTL" && length >= 4) {
      extras.frames = std::max<std::int64_t>(big_endian_u32(content, 0), 1);
    }
    at += kFrameBytes + length;
  }
  return extras;
}

}  // namespace energon
