#include "media/transform/pixels.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

std::int64_t ImageView::pixel_bytes() const {
  return channels * static_cast<std::int64_t>(size_of(dtype));
}

void check_image_size(const char* what, std::int64_t width, std::int64_t height) {
  if (width < 1 || height < 1 || width > kMaxImageSide || height > kMaxImageSide) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} has {} x {} pixels: both must be 1 to {}", what, width, height,
                            kMaxImageSide));
  }
}

void check_image(const ImageView& image) {
  if (image.dtype != DType::kUInt8 && image.dtype != DType::kFloat32) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("an image of {}: transforms expect uint8 or float32", to_string(image.dtype)));
  }
  if (image.channels < 1 || image.channels > kMaxImageChannels) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image with {} channels: transforms expect 1 to {}", image.channels,
                            kMaxImageChannels));
  }
  check_image_size("the image", image.width, image.height);
  if (image.data == nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "an image without memory: data is null");
  }
  const auto size = static_cast<std::int64_t>(size_of(image.dtype));
  if (image.row_bytes < image.width * image.pixel_bytes() || image.row_bytes % size != 0 ||
      reinterpret_cast<std::uintptr_t>(image.data) % static_cast<std::uintptr_t>(size) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rows of {} pixels of {} bytes that begin every {} bytes: they must "
                            "not overlap and must be aligned to {} bytes",
                            image.width, image.pixel_bytes(), image.row_bytes, size));
  }
}

ImageView image_view(ByteView pixels, std::int64_t width, std::int64_t height, int channels,
                     DType dtype) {
  ImageView image{.data = pixels.data(),
                  .width = width,
                  .height = height,
                  .channels = channels,
                  .row_bytes = 0,
                  .dtype = dtype};
  check_image_size("the image", width, height);
  image.row_bytes = width * image.pixel_bytes();
  check_image(image);
  const auto bytes = static_cast<std::uint64_t>(image.row_bytes * height);
  if (pixels.size() != bytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image of {} x {} pixels of {} {}: expected {} bytes, found {}",
                            width, height, channels, to_string(dtype), bytes, pixels.size()));
  }
  return image;
}

void check_room(const ImageView& image, std::int64_t width, std::int64_t height,
                std::span<std::byte> to) {
  const auto bytes = static_cast<std::uint64_t>(width * height * image.pixel_bytes());
  if (to.size() != bytes ||
      reinterpret_cast<std::uintptr_t>(to.data()) % size_of(image.dtype) != 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} x {} pixels of {} {} need {} aligned bytes, the memory for them has "
                    "{}",
                    width, height, image.channels, to_string(image.dtype), bytes, to.size()));
  }
}

ImageView crop(const ImageView& image, const PixelBox& box) {
  if (box.width < 1 || box.height < 1 || box.x < 0 || box.y < 0 || box.x >= image.width ||
      box.y >= image.height || box.width > image.width - box.x ||
      box.height > image.height - box.y) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a box of {} x {} pixels at ({}, {}) is not inside an image of {} x "
                            "{}",
                            box.width, box.height, box.x, box.y, image.width, image.height));
  }
  ImageView part = image;
  part.data += box.y * image.row_bytes + box.x * image.pixel_bytes();
  part.width = box.width;
  part.height = box.height;
  return part;
}

PixelBox intersection(const PixelBox& a, const PixelBox& b) {
  const std::int64_t x = std::max(a.x, b.x);
  const std::int64_t y = std::max(a.y, b.y);
  return {.x = x,
          .y = y,
          .width = std::max<std::int64_t>(std::min(a.x + a.width, b.x + b.width) - x, 0),
          .height = std::max<std::int64_t>(std::min(a.y + a.height, b.y + b.height) - y, 0)};
}

}  // namespace energon
