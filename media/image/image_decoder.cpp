#include "media/image/image_decoder.h"

#include <cstdint>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/image/image_codecs.h"
#include "media/image/image_memory.h"
#include "media/image/output_channels.h"
#include "media/image/row_writer.h"

namespace energon {
namespace {

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
                fmt::format("the image takes {} bytes, but there are {} for it; probe() tells the "
                            "shape",
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

}  // namespace energon
