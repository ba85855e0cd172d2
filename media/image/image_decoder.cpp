#include "media/image/image_decoder.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/image/image_reader.h"
#include "media/image/orientation.h"
#include "media/image/row_writer.h"

namespace energon {

// --- Formats and headers ---

namespace {

constexpr std::string_view kFormatNames[] = {"JPEG", "PNG", "WebP", "GIF", "TIFF"};

struct Beginning {
  std::string_view bytes;
  ImageFormat format;
};

// With explicit lengths, because some contain zeros.
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

std::string_view to_string(ImageFormat format) { return kFormatNames[static_cast<int>(format)]; }

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

// --- Names of modes ---

namespace {

constexpr std::array<std::string_view, 17> kModeNames = {
    "l8",        "rgb8",      "rgba8",      "l",      "rgb",      "rgba",
    "torchl8",   "torchrgb8", "torchrgba8", "torchl", "torchrgb", "torch",
    "torchrgba", "pill",      "pil",        "pilrgb", "pilrgba"};

// Remove `word` from the beginning or the end of `text`; false if it was not there.
bool take_prefix(std::string_view& text, std::string_view word) {
  const bool found = text.starts_with(word);
  text.remove_prefix(found ? word.size() : 0);
  return found;
}

bool take_suffix(std::string_view& text, std::string_view word) {
  const bool found = text.ends_with(word);
  text.remove_suffix(found ? word.size() : 0);
  return found;
}

}  // namespace

std::optional<ImageOptions> image_options_of_mode(std::string_view mode) {
  if (std::find(kModeNames.begin(), kModeNames.end(), mode) == kModeNames.end()) {
    return std::nullopt;
  }
  const bool torch = take_prefix(mode, "torch");
  const bool pil = !torch && take_prefix(mode, "pil");
  const bool eight_bit = take_suffix(mode, "8") || pil;
  ImageOptions options;
  options.layout = torch ? PixelLayout::kChannelsFirst : PixelLayout::kChannelsLast;
  options.dtype = eight_bit ? DType::kUInt8 : DType::kFloat32;
  if (mode == "l") {
    options.channels = ImageChannels::kGray;
  } else if (mode == "rgba") {
    options.channels = ImageChannels::kRgba;
  } else if (mode.empty() && pil) {
    options.channels = ImageChannels::kAsStored;
  }
  return options;
}

std::span<const std::string_view> image_mode_names() { return kModeNames; }

// --- Whole images ---

namespace {

/// Channels of the result for an image with `stored` channels.
constexpr int output_channels(ImageChannels wanted, int stored) {
  switch (wanted) {
    case ImageChannels::kGray:
      return 1;
    case ImageChannels::kRgb:
      return 3;
    case ImageChannels::kRgba:
      return 4;
    case ImageChannels::kAsStored:
      break;
  }
  return stored;
}

TensorSpec spec_of(const ImageInfo& info, const ImageOptions& options) {
  const std::int64_t channels = output_channels(options.channels, info.channels);
  const auto [width, height] = decoded_size(info, options.apply_orientation);
  check_image_bytes("the decoded image", width, height,
                    channels * static_cast<std::int64_t>(size_of(options.dtype)), options.limits);
  TensorSpec spec{.dtype = options.dtype};
  if (options.layout == PixelLayout::kChannelsFirst) {
    spec.shape = {channels, height, width};
  } else if (channels == 1) {
    spec.shape = {height, width};
  } else {
    spec.shape = {height, width, channels};
  }
  return spec;
}

void check_memory(const TensorSpec& spec, std::span<std::byte> to) {
  const std::size_t bytes = tensor_bytes(spec.dtype, spec.shape);
  if (to.size() != bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the image needs {} bytes, but the memory for it has {}; probe() "
                            "returns the shape",
                            bytes, to.size()));
  }
  if (reinterpret_cast<std::uintptr_t>(to.data()) % size_of(spec.dtype) != 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the memory for the image is not aligned to {} bytes", size_of(spec.dtype)));
  }
}

}  // namespace

ImageDecoder::ImageDecoder(const ImageOptions& options) : options_(options) {
  if (options.dtype != DType::kUInt8 && options.dtype != DType::kFloat32) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("images are decoded to uint8 or float32, not to {}", to_string(options.dtype)));
  }
}

TensorSpec ImageDecoder::probe(ByteView encoded) const {
  return spec_of(open_image(encoded, options_.limits)->info(), options_);
}

void ImageDecoder::decode_into(ByteView encoded, std::span<std::byte> to) const {
  const std::unique_ptr<ImageReader> reader = open_image(encoded, options_.limits);
  const ImageInfo& info = reader->info();
  check_memory(spec_of(info, options_), to);
  const int channels = output_channels(options_.channels, info.channels);
  const ReadResult image = reader->start({.crop = {0, 0, info.width, info.height},
                                          .least_width = info.width,
                                          .least_height = info.height,
                                          .channels = channels});
  RowWriter rows(image.rows,
                 {.data = to.data(),
                  .dtype = options_.dtype,
                  .layout = options_.layout,
                  .channels = channels,
                  .orientation = applied_orientation(info, options_.apply_orientation)});
  reader->read(rows);
}

// --- Parts of images ---

namespace {

void check_crop(const PixelBox& crop, std::int64_t width, std::int64_t height) {
  // Written so that no sum can overflow.
  const bool inside = crop.x >= 0 && crop.y >= 0 && crop.width >= 1 && crop.height >= 1 &&
                      crop.x < width && crop.y < height && crop.width <= width - crop.x &&
                      crop.height <= height - crop.y;
  if (!inside) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the crop of {} x {} pixels at ({}, {}) is not inside the image of {} "
                            "x {} pixels",
                            crop.width, crop.height, crop.x, crop.y, width, height));
  }
}

// At most `size`; 0 and less mean `size`.
std::int64_t least_size(std::int64_t wanted, std::int64_t size) {
  return wanted <= 0 ? size : std::min(wanted, size);
}

ReadPlan plan_of(const RegionRequest& request, const ImageInfo& info, int orientation) {
  const bool transposed = transposes(orientation);
  check_crop(request.crop, transposed ? info.height : info.width,
             transposed ? info.width : info.height);
  ReadPlan plan;
  plan.crop = stored_box(request.crop, orientation, info.width, info.height);
  plan.least_width =
      least_size(transposed ? request.least_height : request.least_width, plan.crop.width);
  plan.least_height =
      least_size(transposed ? request.least_width : request.least_height, plan.crop.height);
  return plan;
}

}  // namespace

EncodedImage::EncodedImage(ByteView encoded, const DecodeLimits& limits)
    : reader_(open_image(encoded, limits)), limits_(limits) {}
EncodedImage::EncodedImage(EncodedImage&&) noexcept = default;
EncodedImage& EncodedImage::operator=(EncodedImage&&) noexcept = default;
EncodedImage::~EncodedImage() = default;

const ImageInfo& EncodedImage::info() const { return reader_->info(); }

DecodedRegion EncodedImage::decode(const RegionRequest& request, ImageChannels channels,
                                   bool apply_orientation, BufferAllocator& memory) {
  const ImageInfo& info = reader_->info();
  const int orientation = applied_orientation(info, apply_orientation);
  ReadPlan plan = plan_of(request, info, orientation);
  plan.channels = output_channels(channels, info.channels);
  const ReadResult image = reader_->start(plan);

  const RowFormat& from = image.rows;
  check_image_bytes("the decoded part of the image", from.width, from.height, plan.channels,
                    limits_);
  DecodedRegion region;
  region.pixels = memory.allocate(image_bytes(from.width, from.height, plan.channels));
  const bool transposed = transposes(orientation);
  region.width = static_cast<int>(transposed ? from.height : from.width);
  region.height = static_cast<int>(transposed ? from.width : from.height);
  region.channels = plan.channels;
  region.box = oriented_box(image.box, orientation, static_cast<double>(from.width),
                            static_cast<double>(from.height));
  RowWriter rows(from, {.data = region.pixels.bytes.data(),
                        .dtype = DType::kUInt8,
                        .layout = PixelLayout::kChannelsLast,
                        .channels = plan.channels,
                        .orientation = orientation});
  reader_->read(rows);
  return region;
}

DecodedRegion decode_region(ByteView encoded, const RegionRequest& request, ImageChannels channels,
                            bool apply_orientation, const DecodeLimits& limits,
                            BufferAllocator& memory) {
  return EncodedImage(encoded, limits).decode(request, channels, apply_orientation, memory);
}

}  // namespace energon
