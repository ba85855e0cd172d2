#include "media/decode/transformed_image.h"

#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "media/image/image_decoder.h"
#include "media/image/image_info.h"
#include "tests/media/image/image_file.h"
#include "tests/support/error_of.h"

namespace {

using energon::as_bytes;
using energon::CallRng;
using energon::ImageChannels;
using energon::ImageStep;
using energon::ImageTransform;
using energon::ImageTransformOptions;
using energon::Tensor;
using energon::testing::error_of;
using energon::testing::image_file;

// Files of every format and kind of storage, with 45 x 37 pixels or 37 x 45.
const std::vector<std::string> kFiles = {
    "420.jpg",        "444.jpg",    "progressive.jpg", "exif6.jpg",  "gray.jpg",   "rgb8.png",
    "interlaced.png", "exif6.png",  "rgba8.png",       "rgb16.png",  "lossy.webp", "exif5.webp",
    "local.gif",      "global.gif", "rgb8.tiff",       "tiles.tiff", "turned.tiff"};

std::vector<ImageStep> random_crop_steps() {
  return {energon::RandomResizedCrop{.width = 11, .height = 9}, energon::RandomHorizontalFlip{},
          energon::ColorJitter{.brightness = 0.4}};
}

// At the size of the file: nothing is scaled while it is decoded.
ImageTransformOptions full_size(int channels) {
  return {.channels = channels, .decode_margin = 100};
}

Tensor transformed(const std::string& encoded, const ImageTransform& transform, std::uint32_t seed,
                   const energon::TransformedImageOptions& options = {}) {
  ImageTransform own = transform;
  CallRng rng(seed);
  return energon::decode_transformed(as_bytes(encoded), own, rng, energon::heap_memory(), options);
}

// The same from all pixels of the file.
std::string from_all_pixels(const std::string& encoded, ImageTransform transform,
                            std::uint32_t seed, ImageChannels channels, bool oriented) {
  const energon::ImageDecoder decoder({.channels = channels,
                                       .layout = energon::PixelLayout::kChannelsLast,
                                       .dtype = energon::DType::kUInt8,
                                       .apply_orientation = oriented});
  const auto shape = decoder.probe(as_bytes(encoded)).shape;
  std::vector<std::byte> pixels(energon::tensor_bytes(energon::DType::kUInt8, shape));
  decoder.decode_into(as_bytes(encoded), pixels);
  std::vector<std::byte> numbers(
      energon::tensor_bytes(energon::DType::kFloat32, transform.output(shape[1], shape[0]).shape));
  CallRng rng(seed);
  transform.run(energon::image_view(pixels, shape[1], shape[0], transform.channels()), rng,
                numbers);
  return std::string(energon::as_text(numbers));
}

}  // namespace

TEST_CASE("transforming while decoding gives what transforming all pixels gives") {
  for (const std::string& name : kFiles) {
    const std::string encoded = image_file(name);
    for (const bool oriented : {false, true}) {
      for (const auto& [channels, count] :
           {std::pair{ImageChannels::kRgb, 3}, std::pair{ImageChannels::kGray, 1}}) {
        const ImageTransform transform(random_crop_steps(), full_size(count));
        for (std::uint32_t seed = 0; seed < 20; ++seed) {
          INFO(name << ", oriented " << oriented << ", channels " << count << ", seed " << seed);
          const Tensor tensor =
              transformed(encoded, transform, seed, {.apply_orientation = oriented});
          CHECK(tensor.shape == std::vector<std::int64_t>{count, 9, 11});
          CHECK(energon::as_text(tensor.data.view) ==
                from_all_pixels(encoded, transform, seed, channels, oriented));
        }
      }
    }
  }
}

TEST_CASE("what a transform draws does not depend on how small the image is decoded") {
  const std::string encoded = image_file("444.jpg");
  const std::vector<ImageStep> steps = {energon::ResizeTo{.width = 5, .height = 4}};
  const Tensor scaled = transformed(encoded, ImageTransform(steps), 1);
  const Tensor exact = transformed(encoded, ImageTransform(steps, full_size(3)), 1);
  REQUIRE(scaled.shape == exact.shape);
  const auto* a = reinterpret_cast<const float*>(scaled.data.view.data());
  const auto* b = reinterpret_cast<const float*>(exact.data.view.data());
  double difference = 0;
  const std::size_t numbers = scaled.data.view.size() / sizeof(float);
  for (std::size_t i = 0; i < numbers; ++i) {
    difference += std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
  }
  CHECK(energon::as_text(scaled.data.view) != energon::as_text(exact.data.view));  // it was scaled
  CHECK(difference / static_cast<double>(numbers) < 0.05);
}

TEST_CASE("a transform of two channels and data that is not an image are refused") {
  const std::string encoded = image_file("rgb8.png");
  CHECK_THAT(error_of([&] { transformed(encoded, ImageTransform({}, {.channels = 2}), 0); },
                      energon::ErrorCode::kInvalidArgument),
             Catch::Contains("the transform is for 2"));
  CHECK_THAT(error_of([&] { transformed("no image", ImageTransform({}), 0); },
                      energon::ErrorCode::kCorruptData),
             Catch::Contains("are not a JPEG"));
  CHECK_THAT(
      error_of(
          [&] { transformed(encoded, ImageTransform({}), 0, {.limits = {.max_pixels = 100}}); },
          energon::ErrorCode::kResourceExhausted),
      Catch::Contains("100"));
}
