#include "media/image/image_reader.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "io/error.h"

// Set to 1 or 0 by the build: whether the library of the codec is available.
#if !defined(ENERGON_HAS_JPEG) || !defined(ENERGON_HAS_PNG) || !defined(ENERGON_HAS_WEBP) || \
    !defined(ENERGON_HAS_GIF) || !defined(ENERGON_HAS_TIFF)
#error "ENERGON_HAS_JPEG, _PNG, _WEBP, _GIF and _TIFF must be 1 or 0"
#endif

namespace energon {
namespace {

using OpenImage = std::unique_ptr<ImageReader> (*)(ByteView, const DecodeLimits&);

struct ImageCodec {
  OpenImage open;  // null: not in this build
  const char* package;
};

// In the order of ImageFormat.
constexpr ImageCodec kCodecs[] = {
#if ENERGON_HAS_JPEG
    {open_jpeg, "libjpeg62-turbo-dev"},
#else
    {nullptr, "libjpeg62-turbo-dev"},
#endif
#if ENERGON_HAS_PNG
    {open_png, "libpng-dev"},
#else
    {nullptr, "libpng-dev"},
#endif
#if ENERGON_HAS_WEBP
    {open_webp, "libwebp-dev"},
#else
    {nullptr, "libwebp-dev"},
#endif
#if ENERGON_HAS_GIF
    {open_gif, "libgif-dev"},
#else
    {nullptr, "libgif-dev"},
#endif
#if ENERGON_HAS_TIFF
    {open_tiff, "libtiff-dev"},
#else
    {nullptr, "libtiff-dev"},
#endif
};

Error unknown_format(ByteView encoded) {
  if (const std::string_view name = foreign_image_format(encoded); !name.empty()) {
    return {
        ErrorCode::kUnsupported,
        fmt::format("{} images are not supported; convert to JPEG, PNG, WebP, GIF or TIFF", name)};
  }
  if (encoded.empty()) {
    return {ErrorCode::kCorruptData, "the image is empty: it has 0 bytes"};
  }
  constexpr std::size_t kShown = 8;
  std::string bytes;
  for (const std::byte byte : encoded.first(std::min(encoded.size(), kShown))) {
    bytes += fmt::format(" {:02x}", std::to_integer<unsigned>(byte));
  }
  return {ErrorCode::kCorruptData,
          fmt::format("{} bytes that begin with{} are not a JPEG, PNG, WebP, GIF or TIFF",
                      encoded.size(), bytes)};
}

}  // namespace

std::unique_ptr<ImageReader> open_image(ByteView encoded, const DecodeLimits& limits) {
  const std::optional<ImageFormat> format = image_format_of(encoded);
  if (!format) {
    throw unknown_format(encoded);
  }
  const ImageCodec& codec = kCodecs[static_cast<std::size_t>(*format)];
  if (codec.open == nullptr) {
    throw Error(ErrorCode::kUnsupported, fmt::format("this build has no {} decoder ({})",
                                                     to_string(*format), codec.package));
  }
  return codec.open(encoded, limits);
}

ReadResult ImageReader::start(const ReadPlan& plan) {
  const ImageInfo& image = info();
  return {.rows = {.width = image.width,
                   .height = image.height,
                   .channels = image.channels,
                   .bits = image.bits},
          .box = {static_cast<double>(plan.crop.x), static_cast<double>(plan.crop.y),
                  static_cast<double>(plan.crop.width), static_cast<double>(plan.crop.height)}};
}

}  // namespace energon
