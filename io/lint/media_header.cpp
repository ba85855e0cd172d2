#include "io/lint/media_header.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

namespace energon {
namespace {

// Reads integers from bytes; past the end, returns 0, which no caller accepts as valid.
class Fields {
 public:
  explicit Fields(ByteView bytes) : bytes_(bytes) {}

  std::uint32_t u8(std::size_t at) const {
    return at < bytes_.size() ? std::to_integer<std::uint32_t>(bytes_[at]) : 0;
  }
  std::uint32_t big16(std::size_t at) const { return u8(at) << 8 | u8(at + 1); }
  std::uint32_t big32(std::size_t at) const { return big16(at) << 16 | big16(at + 2); }
  std::uint32_t little16(std::size_t at) const { return u8(at) | u8(at + 1) << 8; }
  std::uint32_t little24(std::size_t at) const { return little16(at) | u8(at + 2) << 16; }
  std::uint32_t little32(std::size_t at) const { return little16(at) | little16(at + 2) << 16; }
  std::string_view text(std::size_t at, std::size_t size) const {
    return at + size <= bytes_.size() ? as_text(bytes_.subspan(at, size)) : std::string_view();
  }
  std::size_t size() const { return bytes_.size(); }

 private:
  const ByteView bytes_;
};

/// A header, or the number of bytes needed and the problem.
struct Reading {
  std::optional<MediaHeader> header = std::nullopt;
  std::size_t needed = 0;  ///< minimum size of the header, in bytes
  std::string problem = {};
};

Reading picture(MediaHeader header, std::size_t needed, std::size_t size) {
  if (size < needed) {
    return {.needed = needed};
  }
  if (header.width == 0 || header.height == 0) {
    return {.problem = fmt::format("its header has {} x {} pixels", header.width, header.height)};
  }
  return {.header = header};
}

// Frame headers are the markers SOF0 to SOF15, except DHT, JPG and DAC in the same range.
bool is_frame_header(std::uint32_t marker) {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

Reading read_jpeg(const Fields& fields) {
  std::size_t at = 2;
  while (at + 9 < fields.size()) {
    const std::uint32_t marker = fields.u8(at + 1);
    if (fields.u8(at) != 0xFF || marker == 0 || marker == 0xD9 || marker == 0xDA) {
      return {.problem = fmt::format("no frame header before byte {}", at)};
    }
    if (is_frame_header(marker)) {
      return picture({.format = "JPEG image",
                      .width = fields.big16(at + 7),
                      .height = fields.big16(at + 5),
                      .channels = fields.u8(at + 9)},
                     0, fields.size());
    }
    at += marker == 0xFF ? 1 : 2 + fields.big16(at + 2);
  }
  return {.needed = at + 10};
}

Reading read_png(const Fields& fields) {
  if (fields.size() >= 16 && fields.text(12, 4) != "IHDR") {
    return {.problem = "its first chunk is not IHDR"};
  }
  return picture({.format = "PNG image", .width = fields.big32(16), .height = fields.big32(20)}, 24,
                 fields.size());
}

Reading read_gif(const Fields& fields) {
  return picture({.format = "GIF image", .width = fields.little16(6), .height = fields.little16(8)},
                 10, fields.size());
}

Reading read_bmp(const Fields& fields) {
  const std::uint32_t height = fields.little32(22);  // negative: from the top
  return picture({.format = "BMP image",
                  .width = fields.little32(18),
                  .height = height > 0x80000000 ? 0 - height : height},
                 26, fields.size());
}

Reading read_webp(const Fields& fields) {
  MediaHeader header{.format = "WebP image"};
  const std::string_view kind = fields.text(12, 4);
  if (kind == "VP8 ") {
    header.width = fields.little16(26) & 0x3FFF;
    header.height = fields.little16(28) & 0x3FFF;
  } else if (kind == "VP8L") {
    const std::uint32_t bits = fields.little32(21);
    header.width = (bits & 0x3FFF) + 1;
    header.height = (bits >> 14 & 0x3FFF) + 1;
  } else if (kind == "VP8X") {
    header.width = fields.little24(24) + 1;
    header.height = fields.little24(27) + 1;
  } else if (fields.size() >= 16) {
    return {.problem = "its first chunk is not VP8, VP8L or VP8X"};
  }
  return picture(header, 30, fields.size());
}

Reading read_wav(const Fields& fields) {
  MediaHeader header{.format = "WAV sound"};
  std::uint32_t bytes_per_second = 0;
  std::size_t at = 12;
  while (at + 8 <= fields.size()) {
    const std::uint32_t size = fields.little32(at + 4);
    if (fields.text(at, 4) == "fmt ") {
      header.channels = fields.little16(at + 10);
      header.sample_rate = fields.little32(at + 12);
      bytes_per_second = fields.little32(at + 16);
    } else if (fields.text(at, 4) == "data") {
      if (bytes_per_second == 0) {
        return {.problem = "no usable format chunk before its data"};
      }
      header.seconds = static_cast<double>(size) / bytes_per_second;
      return {.header = header};
    }
    at += std::size_t{8} + size + size % 2;
  }
  return {.needed = at + 8};
}

std::optional<Reading> read(const Fields& fields) {
  if (fields.big16(0) == 0xFFD8) {
    return read_jpeg(fields);
  }
  if (fields.text(0, 8) == "\x89PNG\r\n\x1a\n") {
    return read_png(fields);
  }
  if (fields.text(0, 6) == "GIF87a" || fields.text(0, 6) == "GIF89a") {
    return read_gif(fields);
  }
  if (fields.text(0, 4) == "RIFF" && fields.text(8, 4) == "WEBP") {
    return read_webp(fields);
  }
  if (fields.text(0, 4) == "RIFF" && fields.text(8, 4) == "WAVE") {
    return read_wav(fields);
  }
  if (fields.text(0, 2) == "BM" && fields.little32(6) == 0) {
    return read_bmp(fields);
  }
  return std::nullopt;
}

// The expected format for each extension.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kFormats = {
    {{"jpg", "JPEG image"},
     {"jpeg", "JPEG image"},
     {"png", "PNG image"},
     {"gif", "GIF image"},
     {"webp", "WebP image"},
     {"bmp", "BMP image"},
     {"wav", "WAV sound"}}};

const auto* format_of(std::string_view extension) {
  return std::find_if(kFormats.begin(), kFormats.end(),
                      [&](const auto& entry) { return entry.first == extension; });
}

}  // namespace

bool promises_media(std::string_view extension) { return format_of(extension) != kFormats.end(); }

std::optional<MediaHeader> read_media_header(ByteView beginning) {
  const std::optional<Reading> reading = read(Fields(beginning));
  return reading ? reading->header : std::nullopt;
}

std::optional<std::string> media_problem(std::string_view extension, ByteView beginning,
                                         std::uint64_t size) {
  const auto* const format = format_of(extension);
  if (format == kFormats.end()) {
    return std::nullopt;
  }
  if (size == 0) {
    return fmt::format("is empty: expected a {}, found 0 bytes", format->second);
  }
  const Fields fields(beginning);
  const std::optional<Reading> reading = read(fields);
  if (!reading) {
    std::string bytes;
    for (std::size_t at = 0; at < std::min<std::size_t>(fields.size(), 4); ++at) {
      bytes += fmt::format(" {:02x}", fields.u8(at));
    }
    return fmt::format("is not a {}: it begins with{}", format->second, bytes);
  }
  if (!reading->problem.empty()) {
    return fmt::format("is a damaged {}: {}", format->second, reading->problem);
  }
  if (reading->needed > size) {
    return fmt::format("is a damaged {}: its header needs {} bytes, found {}", format->second,
                       reading->needed, size);
  }
  return std::nullopt;
}

}  // namespace energon
