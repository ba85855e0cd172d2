#include "cli/media_header.h"

#include <cstdint>
#include <string_view>

#include <fmt/format.h>

#include "cli/output.h"

namespace energon::cli {
namespace {

// Reads numbers out of bytes; what lies beyond the end is 0, which no caller takes for valid.
class Fields {
 public:
  explicit Fields(ByteView bytes) : bytes_(bytes) {}

  std::uint32_t u8(std::size_t at) const {
    return at < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[at]) : 0;
  }
  std::uint32_t big16(std::size_t at) const { return u8(at) << 8 | u8(at + 1); }
  std::uint32_t big32(std::size_t at) const { return big16(at) << 16 | big16(at + 2); }
  std::uint32_t little16(std::size_t at) const { return u8(at) | u8(at + 1) << 8; }
  std::uint32_t little32(std::size_t at) const { return little16(at) | little16(at + 2) << 16; }
  std::string_view text(std::size_t at, std::size_t size) const {
    return at + size <= bytes_.size() ? as_text(bytes_.subspan(at, size)) : std::string_view();
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  const ByteView bytes_;
};

// A frame header is any of the markers SOF0 to SOF15 but DHT, JPG and DAC, which lie between them.
bool is_frame_header(std::uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

std::optional<std::string> describe_jpeg(const Fields& fields) {
  std::size_t at = 2;
  while (at + 9 < fields.size() && fields.u8(at) == 0xFF) {
    const std::uint32_t marker = fields.u8(at + 1);
    if (is_frame_header(marker)) {
      return fmt::format("JPEG image, {} x {}, {}", fields.big16(at + 7), fields.big16(at + 5),
                         plural(fields.u8(at + 9), "channel"));
    }
    at += marker == 0xFF ? 1 : 2 + fields.big16(at + 2);
  }
  return std::nullopt;
}

std::optional<std::string> describe_png(const Fields& fields) {
  if (fields.text(12, 4) != "IHDR") {
    return std::nullopt;
  }
  return fmt::format("PNG image, {} x {}", fields.big32(16), fields.big32(20));
}

std::optional<std::string> describe_wav(const Fields& fields) {
  std::uint32_t channels = 0;
  std::uint32_t rate = 0;
  std::uint32_t bytes_per_second = 0;
  for (std::size_t at = 12; at + 8 <= fields.size();) {
    const std::uint32_t size = fields.little32(at + 4);
    if (fields.text(at, 4) == "fmt ") {
      channels = fields.little16(at + 10);
      rate = fields.little32(at + 12);
      bytes_per_second = fields.little32(at + 16);
    } else if (fields.text(at, 4) == "data" && bytes_per_second > 0) {
      return fmt::format("WAV sound, {} Hz, {}, {:.2f} s", rate, plural(channels, "channel"),
                         static_cast<double>(size) / bytes_per_second);
    }
    at += std::size_t{8} + size + size % 2;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> describe_media(ByteView bytes) {
  const Fields fields(bytes);
  if (fields.big16(0) == 0xFFD8) {
    return describe_jpeg(fields);
  }
  if (fields.text(0, 8) == "\x89PNG\r\n\x1a\n") {
    return describe_png(fields);
  }
  if (fields.text(0, 4) == "RIFF" && fields.text(8, 4) == "WAVE") {
    return describe_wav(fields);
  }
  return std::nullopt;
}

}  // namespace energon::cli
