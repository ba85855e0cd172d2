#include "cli/show/thumbnail.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "cli/show/png_file.h"
#include "energon/sample/buffer_allocator.h"
#include "media/av/av_decoder.h"
#include "media/image/image_decoder.h"
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
    return std::clamp(std::int64_t{std::lround(static_cast<double>(side) * factor)},
                      std::int64_t{1}, kThumbnailSide);
  };
  return {scaled(width), scaled(height)};
}

}  // namespace

Thumbnail thumbnail_of_image(ByteView encoded, const ImageInfo& info) {
  const ImageSize full = decoded_size(info, false);
  const auto [width, height] = sides_of_thumbnail(full.width, full.height);
  const DecodedRegion region = decode_region(encoded,
                                             {.crop = {.width = full.width, .height = full.height},
                                              .least_width = width,
                                              .least_height = height},
                                             ImageChannels::kAsStored, false, {}, heap_memory());
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
