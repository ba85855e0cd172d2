#include "media/image/jpeg_orientation.h"

#include <cstddef>

#include "media/image/orientation.h"

namespace energon {
namespace {

constexpr unsigned kApp1 = 0xE1;
constexpr unsigned kStartOfScan = 0xDA;
constexpr unsigned kEndOfImage = 0xD9;

// TEM, RSTn and SOI have no length behind them.
bool stands_alone(unsigned marker) { return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD8); }

}  // namespace

int jpeg_orientation(ByteView encoded) {
  const auto byte = [&](std::size_t at) { return std::to_integer<unsigned>(encoded[at]); };
  std::size_t at = 2;  // behind SOI
  while (at + 4 <= encoded.size() && byte(at) == 0xFF) {
    const unsigned marker = byte(at + 1);
    if (marker == 0xFF) {  // a fill byte
      ++at;
      continue;
    }
    if (marker == kStartOfScan || marker == kEndOfImage) {
      break;
    }
    if (stands_alone(marker)) {
      at += 2;
      continue;
    }
    const std::size_t length = byte(at + 2) << 8U | byte(at + 3);  // includes itself
    if (length < 2 || length > encoded.size() - at - 2) {
      break;
    }
    const ByteView content = encoded.subspan(at + 4, length - 2);
    if (marker == kApp1 && as_text(content).starts_with("Exif")) {
      return exif_orientation(content);
    }
    at += 2 + length;
  }
  return 1;
}

}  // namespace energon
