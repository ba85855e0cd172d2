#include "media/image/image_region.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/error.h"
#include "media/image/image_codecs.h"
#include "media/image/image_memory.h"
#include "media/image/orientation.h"
#include "media/image/output_channels.h"
#include "media/image/row_writer.h"

namespace energon {
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

// At most `size`; 0 and less mean all of it.
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
