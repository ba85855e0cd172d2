#include "cli/show/thumbnail.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include <fmt/format.h>
#include <png.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "media/av/av_decoder.h"
#include "media/image/image_region.h"
#include "media/transform/resize.h"

namespace energon::cli {
namespace {

struct SidesOfThumbnail {
  std::int64_t width;
  std::int64_t height;
};

// Never larger than the image, and at least one pixel.
SidesOfThumbnail sides_of_thumbnail(std::int64_t width, std::int64_t height) {
  const double factor = std::min(
      1.0, static_cast<double>(kThumbnailSide) / static_cast<double>(std::max(width, height)));
  const auto scaled = [factor](std::int64_t side) {
    return std::clamp(static_cast<std::int64_t>(static_cast<double>(side) * factor + 0.5),
                      std::int64_t{1}, kThumbnailSide);
  };
  return {scaled(width), scaled(height)};
}

}  // namespace

std::string png_of_pixels(ByteView pixels, std::int64_t width, std::int64_t height, int channels) {
  constexpr png_uint_32 kFormats[] = {PNG_FORMAT_GRAY, PNG_FORMAT_GA, PNG_FORMAT_RGB,
                                      PNG_FORMAT_RGBA};
  if (width < 1 || height < 1 || width > 65535 || height > 65535 || channels < 1 || channels > 4 ||
      pixels.size() != static_cast<std::size_t>(width * height * channels)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} bytes are no picture of {} x {} with {} channels", pixels.size(),
                            width, height, channels));
  }
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = static_cast<png_uint_32>(width);
  image.height = static_cast<png_uint_32>(height);
  image.format = kFormats[channels - 1];
  png_alloc_size_t size = PNG_IMAGE_PNG_SIZE_MAX(image);
  std::string png(size, '\0');
  if (png_image_write_to_memory(&image, png.data(), &size, 0, pixels.data(), 0, nullptr) == 0) {
    throw Error(ErrorCode::kInternal, fmt::format("cannot write a thumbnail: {}", image.message));
  }
  png.resize(size);
  return png;
}

Thumbnail thumbnail_of_image(ByteView encoded, const ImageInfo& info) {
  const bool is_turned = info.orientation >= 5;
  const std::int64_t full_width = is_turned ? info.height : info.width;
  const std::int64_t full_height = is_turned ? info.width : info.height;
  const auto [width, height] = sides_of_thumbnail(full_width, full_height);
  const DecodedRegion region = decode_region(encoded,
                                             {.crop = {.width = full_width, .height = full_height},
                                              .least_width = width,
                                              .least_height = height},
                                             ImageChannels::kAsStored, true, {}, heap_memory());
  const auto bytes_of = [&region](std::int64_t w, std::int64_t h) {
    return static_cast<std::size_t>(w * h * region.channels);
  };
  const ImageView view =
      image_view(region.pixels.bytes.first(bytes_of(region.width, region.height)), region.width,
                 region.height, region.channels);
  std::vector<std::byte> pixels(bytes_of(width, height));
  Resizer().resize(view, region.box, width, height, {}, pixels);
  return {png_of_pixels(pixels, width, height, region.channels), width, height};
}

Thumbnail thumbnail_of_video(const SharedBytes& file) {
  AvDecoder decoder(file);
  const AvMetadata metadata = decoder.metadata();
  const auto [width, height] =
      sides_of_thumbnail(metadata.width.value_or(kThumbnailSide), metadata.height.value_or(180));
  const double middle = metadata.video_duration_seconds.value_or(0) / 2;
  const VideoClip clip = decoder.video_frames_at(
      {&middle, 1}, FrameSize{static_cast<int>(width), static_cast<int>(height)}, heap_memory());
  const ByteView planes = clip.frames.data.view;
  const auto plane = static_cast<std::size_t>(width * height);
  std::vector<std::byte> pixels(plane * 3);
  for (std::size_t i = 0; i < pixels.size(); ++i) {
    pixels[i] = planes[i % 3 * plane + i / 3];
  }
  return {png_of_pixels(pixels, width, height, 3), width, height};
}

}  // namespace energon::cli
