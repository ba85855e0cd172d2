#include "media/image/image_info.h"

#include <array>
#include <cstddef>
#include <memory>

#include "media/image/image_reader.h"

namespace energon {
namespace {

constexpr std::string_view kNames[] = {"JPEG", "PNG", "WebP", "GIF", "TIFF"};

struct Beginning {
  std::string_view bytes;
  ImageFormat format;
};

// Their lengths are given, as some have zeros in them.
constexpr std::array kBeginnings = {
    Beginning{{"\xFF\xD8\xFF", 3}, ImageFormat::kJpeg},
    Beginning{{"\x89PNG\r\n\x1A\n", 8}, ImageFormat::kPng},
    Beginning{{"GIF87a", 6}, ImageFormat::kGif},
    Beginning{{"GIF89a", 6}, ImageFormat::kGif},
    Beginning{{"II*\0", 4}, ImageFormat::kTiff},
    Beginning{{"MM\0*", 4}, ImageFormat::kTiff},
    Beginning{{"II+\0", 4}, ImageFormat::kTiff},
    Beginning{{"MM\0+", 4}, ImageFormat::kTiff},
};

struct ForeignBeginning {
  std::size_t offset;
  std::string_view bytes;
  std::string_view name;
};

constexpr std::array kForeign = {
    ForeignBeginning{0, "BM", "BMP"},
    ForeignBeginning{4, "ftypavif", "AVIF"},
    ForeignBeginning{4, "ftyphei", "HEIC"},
    ForeignBeginning{4, "ftypmif1", "HEIF"},
    ForeignBeginning{0, {"\xFF\x0A", 2}, "JPEG XL"},
    ForeignBeginning{0, {"\0\0\0\x0CJXL ", 8}, "JPEG XL"},
    ForeignBeginning{0, {"\0\0\0\x0CjP  ", 8}, "JPEG 2000"},
    ForeignBeginning{0, {"\xFF\x4F\xFF\x51", 4}, "JPEG 2000"},
    ForeignBeginning{0, "8BPS", "Photoshop"},
    ForeignBeginning{0, "v/1\x01", "OpenEXR"},
    ForeignBeginning{0, {"\0\0\x01\0", 4}, "ICO"},
    ForeignBeginning{0, "<svg", "SVG"},
};

bool has_at(std::string_view text, std::size_t offset, std::string_view bytes) {
  return text.size() >= offset && text.substr(offset, bytes.size()) == bytes;
}

}  // namespace

std::string_view to_string(ImageFormat format) { return kNames[static_cast<int>(format)]; }

std::optional<ImageFormat> image_format_of(ByteView encoded) {
  const std::string_view text = as_text(encoded);
  for (const Beginning& beginning : kBeginnings) {
    if (text.starts_with(beginning.bytes)) {
      return beginning.format;
    }
  }
  if (text.starts_with("RIFF") && has_at(text, 8, "WEBP")) {
    return ImageFormat::kWebp;
  }
  return std::nullopt;
}

std::string_view foreign_image_format(ByteView encoded) {
  for (const ForeignBeginning& foreign : kForeign) {
    if (has_at(as_text(encoded), foreign.offset, foreign.bytes)) {
      return foreign.name;
    }
  }
  return {};
}

ImageInfo probe_image(ByteView encoded, const DecodeLimits& limits) {
  const std::unique_ptr<ImageReader> reader = open_image(encoded, limits);
  ImageInfo info = reader->info();
  info.frames = reader->frames();
  return info;
}

}  // namespace energon
