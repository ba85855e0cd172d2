#include "media/image/webp_chunks.h"

#include <cstddef>
#include <string_view>

#include "media/image/orientation.h"

namespace energon {
namespace {

constexpr std::size_t kRiffHeaderBytes = 12;
constexpr std::size_t kChunkHeaderBytes = 8;
constexpr std::size_t kFrameHeaderBytes = 16;

std::uint32_t little_endian(ByteView bytes, std::size_t at, std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = (value << 8U) | std::to_integer<std::uint32_t>(bytes[at + i]);
  }
  return value;
}

// The payload of ANMF: places in units of two pixels, sizes less one, a duration and flags.
WebpFrame frame_of(ByteView content) {
  return {.image = content.subspan(kFrameHeaderBytes),
          .x = 2 * std::int64_t{little_endian(content, 0, 3)},
          .y = 2 * std::int64_t{little_endian(content, 3, 3)},
          .width = 1 + std::int64_t{little_endian(content, 6, 3)},
          .height = 1 + std::int64_t{little_endian(content, 9, 3)}};
}

}  // namespace

WebpChunks webp_chunks(ByteView encoded) {
  WebpChunks chunks;
  std::size_t at = kRiffHeaderBytes;
  while (at + kChunkHeaderBytes <= encoded.size()) {
    const std::string_view type = as_text(encoded).substr(at, 4);
    const std::size_t length = little_endian(encoded, at + 4, 4);
    if (length > encoded.size() - at - kChunkHeaderBytes) {
      break;
    }
    const ByteView content = encoded.subspan(at + kChunkHeaderBytes, length);
    if (type == "EXIF") {
      chunks.orientation = exif_orientation(content);
    } else if (type == "ANMF" && length >= kFrameHeaderBytes) {
      ++chunks.frames;
      if (!chunks.first_frame) {
        chunks.first_frame = frame_of(content);
      }
    }
    at += kChunkHeaderBytes + length + length % 2;
  }
  return chunks;
}

}  // namespace energon
