// Decodes WebP with libwebp's advanced interface, into the caller's memory if no conversion is
// needed. For an animation, decodes the first image, on a transparent canvas.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <string_view>

#include <fmt/format.h>
#include <webp/decode.h>

#include "io/bytes.h"
#include "io/error.h"
#include "media/image/image_reader.h"
#include "media/image/orientation.h"

namespace energon {

// --- RIFF chunks (RFC 9649, section 2) ---

namespace {

/// One image of an animation.
struct WebpFrame {
  ByteView image;  ///< the chunks that WebPDecode takes: ALPH and VP8, or VP8L
  std::int64_t x = 0;
  std::int64_t y = 0;
  std::int64_t width = 0;
  std::int64_t height = 0;
};

struct WebpChunks {
  int orientation = 1;      ///< from the chunk EXIF
  std::int64_t frames = 0;  ///< ANMF chunks; 0 in a still image
  std::optional<WebpFrame> first_frame = std::nullopt;
};

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

// The payload of ANMF: positions in units of two pixels, sizes minus one, a duration and flags.
WebpFrame frame_of(ByteView content) {
  return {.image = content.subspan(kFrameHeaderBytes),
          .x = 2 * std::int64_t{little_endian(content, 0, 3)},
          .y = 2 * std::int64_t{little_endian(content, 3, 3)},
          .width = 1 + std::int64_t{little_endian(content, 6, 3)},
          .height = 1 + std::int64_t{little_endian(content, 9, 3)}};
}

/// Walks the chunks; stops where they are damaged.
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

}  // namespace

// --- The reader ---

namespace {

// Pixels added on each side of a crop, inside the image, because colors of a lossy image are
// interpolated between pairs of pixels. Even, because crops begin at even pixels.
constexpr std::int64_t kWebpMargin = 2;

class WebpReader final : public ImageReader {
 public:
  WebpReader(ByteView encoded, const DecodeLimits& limits);

  const ImageInfo& info() const override { return info_; }
  std::int64_t frames() override { return frame_ ? chunks_.frames : 1; }
  ReadResult start(const ReadPlan& plan) override;
  void read(RowWriter& rows) override;

 private:
  void read_header();
  void read_canvas();
  void decode_to(const RowBand& band, std::int64_t width, std::int64_t height) const;
  int rows_in(WebPDecoderConfig& config) const;
  Error failure(int status, int rows) const;

  const ByteView encoded_;
  const DecodeLimits limits_;
  const WebpChunks chunks_;
  ByteView image_;                  // the still image, or the first one of an animation
  std::optional<WebpFrame> frame_;  // only for an animation; inside the canvas
  ImageInfo info_;
  RowFormat rows_;
  PixelBox crop_;
};

const uint8_t* webp_data(ByteView bytes) { return reinterpret_cast<const uint8_t*>(bytes.data()); }

const char* webp_words(int status) {
  switch (status) {
    case VP8_STATUS_OUT_OF_MEMORY:
      return "out of memory";
    case VP8_STATUS_BITSTREAM_ERROR:
      return "the bit stream is invalid";
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return "it uses an unsupported feature";
    default:
      return "the data ends too early";
  }
}

WebpReader::WebpReader(ByteView encoded, const DecodeLimits& limits)
    : encoded_(encoded), limits_(limits), chunks_(webp_chunks(encoded)), image_(encoded) {
  read_header();
  check_pixels("the WebP", static_cast<std::uint64_t>(info_.width),
               static_cast<std::uint64_t>(info_.height), limits);
}

void WebpReader::read_header() {
  WebPBitstreamFeatures features;
  const int status = WebPGetFeatures(webp_data(encoded_), encoded_.size(), &features);
  if (status != VP8_STATUS_OK) {
    throw failure(status, 0);
  }
  info_ = {.format = ImageFormat::kWebp,
           .width = features.width,
           .height = features.height,
           .channels = features.has_alpha != 0 || features.has_animation != 0 ? 4 : 3,
           .orientation = chunks_.orientation};
  if (features.has_animation != 0) {
    read_canvas();
  }
}

void WebpReader::read_canvas() {
  if (!chunks_.first_frame) {
    throw failure(VP8_STATUS_NOT_ENOUGH_DATA, 0);
  }
  const WebpFrame& frame = *chunks_.first_frame;
  image_ = frame.image;
  WebPBitstreamFeatures features;
  const int status = WebPGetFeatures(webp_data(image_), image_.size(), &features);
  if (status != VP8_STATUS_OK) {
    throw failure(status, 0);
  }
  if (features.width != frame.width || features.height != frame.height ||
      frame.x + frame.width > info_.width || frame.y + frame.height > info_.height) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the WebP's first image has {} x {} pixels; expected {} x {} at ({}, {}) "
                    "of {} x {}",
                    features.width, features.height, frame.width, frame.height, frame.x, frame.y,
                    info_.width, info_.height));
  }
  frame_ = frame;
}

ReadResult WebpReader::start(const ReadPlan& plan) {
  ReadResult result = ImageReader::start(plan);
  crop_ = {0, 0, info_.width, info_.height};
  if (!frame_) {
    crop_.x = std::max<std::int64_t>(plan.crop.x - kWebpMargin, 0) / 2 * 2;
    crop_.y = std::max<std::int64_t>(plan.crop.y - kWebpMargin, 0) / 2 * 2;
    crop_.width = std::min(plan.crop.x + plan.crop.width + kWebpMargin, info_.width) - crop_.x;
    crop_.height = std::min(plan.crop.y + plan.crop.height + kWebpMargin, info_.height) - crop_.y;
    result.box.x -= static_cast<double>(crop_.x);
    result.box.y -= static_cast<double>(crop_.y);
    result.rows.width = crop_.width;
    result.rows.height = crop_.height;
    result.rows.channels = plan.channels == 4 ? 4 : 3;
  }
  rows_ = result.rows;
  check_image_bytes("the WebP", rows_.width, rows_.height, rows_.pixel_bytes(), limits_);
  return result;
}

// Decodes the damaged image again to find the row.
int WebpReader::rows_in(WebPDecoderConfig& config) const {
  const std::unique_ptr<WebPIDecoder, decltype(&WebPIDelete)> decoder(
      WebPIDecode(nullptr, 0, &config), WebPIDelete);
  int rows = 0;
  if (decoder != nullptr) {
    WebPIUpdate(decoder.get(), webp_data(image_), image_.size());
    WebPIDecGetRGB(decoder.get(), &rows, nullptr, nullptr, nullptr);
  }
  return std::max(rows, 0);
}

void WebpReader::decode_to(const RowBand& band, std::int64_t width, std::int64_t height) const {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) {
    throw Error(ErrorCode::kUnsupported, "libwebp and its header have different versions");
  }
  if (!frame_) {
    config.options.use_cropping = 1;
    config.options.crop_left = static_cast<int>(crop_.x);
    config.options.crop_top = static_cast<int>(crop_.y);
    config.options.crop_width = static_cast<int>(crop_.width);
    config.options.crop_height = static_cast<int>(crop_.height);
  }
  config.output.colorspace = rows_.channels == 4 ? MODE_RGBA : MODE_RGB;
  config.output.is_external_memory = 1;
  config.output.u.RGBA.rgba = reinterpret_cast<uint8_t*>(band.first);
  config.output.u.RGBA.stride = static_cast<int>(band.stride);
  config.output.u.RGBA.size =
      static_cast<std::size_t>(band.stride * (height - 1) + width * rows_.channels);
  const int status = WebPDecode(webp_data(image_), image_.size(), &config);
  if (status != VP8_STATUS_OK) {
    throw failure(status, rows_in(config));
  }
}

Error WebpReader::failure(int status, int rows) const {
  const ErrorCode code = status == VP8_STATUS_OUT_OF_MEMORY         ? ErrorCode::kResourceExhausted
                         : status == VP8_STATUS_UNSUPPORTED_FEATURE ? ErrorCode::kUnsupported
                                                                    : ErrorCode::kCorruptData;
  const char* fault = code == ErrorCode::kCorruptData ? "is damaged" : "cannot be decoded";
  return {code,
          fmt::format("the WebP of {} bytes {} at row {} of {}: {}", encoded_.size(), fault, rows,
                      crop_.height > 0 ? crop_.height : info_.height, webp_words(status))};
}

void WebpReader::read(RowWriter& rows) {
  const auto size = static_cast<std::size_t>(rows_.height * rows_.row_bytes());
  std::unique_ptr<std::byte[]> own;
  RowBand image{.stride = rows_.row_bytes(), .rows = rows_.height};
  const bool direct = rows.is_direct() && rows.rows(0).stride > 0;
  if (direct) {
    image = rows.rows(0);
  } else {
    own = std::make_unique_for_overwrite<std::byte[]>(size);
    image.first = own.get();
  }
  if (frame_) {
    const WebpFrame& frame = *frame_;
    std::memset(image.first, 0, size);
    RowBand part = image;
    part.first += frame.y * image.stride + frame.x * rows_.channels;
    decode_to(part, frame.width, frame.height);
  } else {
    decode_to(image, rows_.width, rows_.height);
  }
  if (!direct) {
    rows.put(0, image.first, image.stride, rows_.height);
  }
}

}  // namespace

std::unique_ptr<ImageReader> open_webp(ByteView encoded, const DecodeLimits& limits) {
  return std::make_unique<WebpReader>(encoded, limits);
}

}  // namespace energon
