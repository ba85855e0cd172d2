// Images of one format: ENERGON_FUZZ_FORMAT, an ImageFormat. Whole images in all modes, and regions
// of images.

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "media/image/image_decoder.h"
#include "tests/fuzz/media/checked_value.h"
#include "tests/fuzz/media/checksums.h"
#include "tests/fuzz/media/choices.h"
#include "tests/fuzz/media/exact_memory.h"

namespace energon::fuzz {
namespace {

constexpr ImageFormat kFormat = ImageFormat::ENERGON_FUZZ_FORMAT;

std::string_view signature() {
  using namespace std::string_view_literals;
  switch (kFormat) {
    case ImageFormat::kJpeg:
      return "\xFF\xD8\xFF"sv;
    case ImageFormat::kPng:
      return "\x89PNG\r\n\x1A\n"sv;
    case ImageFormat::kWebp:
      return "RIFF\x40\0\0\0WEBP"sv;
    case ImageFormat::kGif:
      return "GIF89a"sv;
    default:
      return "II*\0"sv;
  }
}

// The input as a file of the format, with its magic and checksums fixed.
std::string image_of(ByteView input, bool is_mended) {
  std::string image(as_text(input));
  if (image_format_of(input) != kFormat) {
    image.replace(0, std::min(image.size(), signature().size()), signature());
  }
  if (kFormat == ImageFormat::kPng && is_mended) {
    mend_png(image);
  }
  return image;
}

void check_whole(ByteView image, Choices& choices) {
  const auto names = image_mode_names();
  ImageOptions options = *image_options_of_mode(names[choices.below(names.size())]);
  options.apply_orientation = choices.yes();
  options.limits = kFuzzLimits;
  const ImageDecoder decoder(options);
  const TensorSpec spec = decoder.probe(image);
  const ImageInfo info = probe_image(image, kFuzzLimits);
  const ImageSize size = decoded_size(info, options.apply_orientation);
  const std::size_t row = options.layout == PixelLayout::kChannelsFirst ? 1 : 0;
  require(spec.shape.at(row) == size.height);
  require(spec.shape.at(row + 1) == size.width);
  decode_checked(decoder, image, spec);
}

// The pixels of the crop in the whole image: uint8, channels last.
std::vector<std::byte> cut(ByteView whole, std::int64_t whole_width, const PixelBox& crop,
                           std::int64_t channels) {
  std::vector<std::byte> pixels;
  for (std::int64_t y = crop.y; y < crop.y + crop.height; ++y) {
    const auto row = whole.subspan(static_cast<std::size_t>((y * whole_width + crop.x) * channels),
                                   static_cast<std::size_t>(crop.width * channels));
    pixels.insert(pixels.end(), row.begin(), row.end());
  }
  return pixels;
}

// At full size, the crop has the same pixels as in the whole image.
void check_crop(ByteView image, const PixelBox& crop, const DecodedRegion& region,
                ImageChannels channels, bool apply_orientation) {
  const ImageDecoder decoder({.channels = channels,
                              .layout = PixelLayout::kChannelsLast,
                              .dtype = DType::kUInt8,
                              .apply_orientation = apply_orientation,
                              .limits = kFuzzLimits});
  const TensorSpec spec = decoder.probe(image);
  std::vector<std::byte> whole(tensor_bytes(spec.dtype, spec.shape));
  try {
    decoder.decode_into(image, whole);
  } catch (const Error&) {
    return;  // damaged outside the crop
  }
  const PixelBox place = {
      static_cast<std::int64_t>(region.box.x), static_cast<std::int64_t>(region.box.y),
      static_cast<std::int64_t>(region.box.width), static_cast<std::int64_t>(region.box.height)};
  require(place.width == crop.width && place.height == crop.height);
  require(cut(whole, spec.shape.at(1), crop, region.channels) ==
          cut(region.pixels.bytes, region.width, place, region.channels));
}

std::int64_t share(std::int64_t size, std::size_t byte) {
  return size * static_cast<std::int64_t>(byte) / 256;
}

void check_region(ByteView image, Choices& choices) {
  const ImageInfo info = probe_image(image, kFuzzLimits);
  const auto channels = static_cast<ImageChannels>(choices.below(4));
  const std::size_t flags = choices.byte();
  const bool apply_orientation = (flags & 1) != 0;
  const bool is_small = (flags & 2) != 0;
  const auto [width, height] = decoded_size(info, apply_orientation);
  RegionRequest request;
  request.crop.x = share(width, choices.byte());
  request.crop.y = share(height, choices.byte());
  request.crop.width = 1 + share(width - request.crop.x, choices.byte());
  request.crop.height = 1 + share(height - request.crop.y, choices.byte());
  if (is_small) {
    request.least_width = 1 + request.crop.width / 4;
    request.least_height = 1 + request.crop.height / 8;
  }
  ExactMemory memory;
  const DecodedRegion region =
      decode_region(image, request, channels, apply_orientation, kFuzzLimits, memory);
  const auto pixels = static_cast<std::size_t>(region.width) * region.height * region.channels;
  require(region.pixels.bytes.size() == pixels);
  require(region.box.x >= 0 && region.box.x + region.box.width <= region.width + 1e-9);
  require(region.box.y >= 0 && region.box.y + region.box.height <= region.height + 1e-9);
  touch(region.pixels.bytes);
  if (!is_small) {
    check_crop(image, request.crop, region, channels, apply_orientation);
  }
}

}  // namespace
}  // namespace energon::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace energon;
  fuzz::Choices choices(data, size);
  const std::size_t how = choices.below(8);
  const std::string image = fuzz::image_of(choices.rest(), how < 6);
  return fuzz::try_to_read([&] {
    if (how % 2 == 0) {
      fuzz::check_whole(as_bytes(image), choices);
    } else {
      fuzz::check_region(as_bytes(image), choices);
    }
  });
}
