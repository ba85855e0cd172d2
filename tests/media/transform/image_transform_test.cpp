#include "media/transform/image_transform.h"

#include <catch2/catch.hpp>

#include "media/transform/color.h"
#include "media/transform/normalize.h"
#include "media/transform/resize.h"
#include "tests/media/transform/noise_image.h"
#include "tests/support/error_of.h"

using energon::CallRng;
using energon::DType;
using energon::FractionalBox;
using energon::ImagePlan;
using energon::ImageStep;
using energon::ImageTransform;
using energon::ImageTransformOptions;
using energon::ImageView;
using energon::PixelBox;
using energon::TensorSpec;
using energon::testing::noise;
using energon::testing::Pixels;

namespace {

const ImageTransformOptions kLevels = {.format = {.dtype = DType::kUInt8, .channels_first = false}};

Pixels transformed(ImageTransform transform, const ImageView& image, std::uint32_t seed = 1) {
  const TensorSpec spec = transform.output(image.width, image.height);
  Pixels result(energon::tensor_bytes(spec.dtype, spec.shape));
  CallRng rng(seed);
  transform.run(image, rng, result);
  return result;
}

std::vector<ImageStep> training_steps() {
  return {energon::RandomResizedCrop{.width = 24, .height = 20}, energon::RandomHorizontalFlip{},
          energon::RandomRotation{{-20, 20}},
          energon::ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1},
          energon::RandomGray{0.2}};
}

std::vector<std::int64_t> shape_of(std::vector<ImageStep> steps, std::int64_t width,
                                   std::int64_t height) {
  return ImageTransform(std::move(steps), kLevels).output(width, height).shape;
}

std::string refusal(const std::vector<ImageStep>& steps,
                    const ImageTransformOptions& options = {}) {
  return energon::testing::error_of([&] { ImageTransform(steps, options); },
                                    energon::ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("sizes equal those of torchvision's steps") {
  using Shape = std::vector<std::int64_t>;
  CHECK(shape_of({}, 31, 17) == Shape{17, 31, 3});
  CHECK(shape_of({energon::ResizeShortest{10}}, 35, 16) == Shape{10, 21, 3});
  CHECK(shape_of({energon::ResizeShortest{10}}, 16, 35) == Shape{21, 10, 3});
  CHECK(shape_of({energon::ResizeShortest{10, 15}}, 35, 16) == Shape{7, 15, 3});
  CHECK(shape_of({energon::ResizeLongest{10}}, 35, 16) == Shape{4, 10, 3});
  CHECK(shape_of({energon::ResizeTo{9, 8}, energon::CenterCrop{20, 4}}, 35, 16) == Shape{4, 20, 3});
  CHECK(shape_of({energon::PadToSquare{}}, 35, 16) == Shape{35, 35, 3});
  CHECK(shape_of({energon::Padding{1, 2, 3, 4}}, 35, 16) == Shape{22, 39, 3});
  CHECK(shape_of({energon::RandomCrop{40, 5}}, 35, 16) == Shape{5, 40, 3});
}

TEST_CASE("the evaluation transform is a resize, a crop and a normalization") {
  const Pixels pixels = noise(61, 47, 3);
  const ImageView image = energon::image_view(pixels, 61, 47, 3);
  const energon::OutputFormat format = {.mean = {0.5, 0.4, 0.3}, .stddev = {0.2, 0.25, 0.3}};
  const Pixels result =
      transformed(ImageTransform({energon::ResizeShortest{32}, energon::CenterCrop{28, 28}},
                                 {.format = format}),
                  image);
  Pixels resized(std::size_t{41} * 32 * 3);
  energon::Resizer().resize(image, 41, 32, {}, resized);
  const ImageView middle = energon::crop(energon::image_view(resized, 41, 32, 3), {6, 2, 28, 28});
  Pixels expected(std::size_t{28} * 28 * 3 * 4);
  energon::Normalizer(format, 3).run(middle, expected);
  CHECK(result == expected);
}

TEST_CASE("the same seed gives the same tensor, other seeds give others") {
  const Pixels pixels = noise(61, 47, 3);
  const ImageView image = energon::image_view(pixels, 61, 47, 3);
  const ImageTransform transform(training_steps());
  CHECK(transformed(transform, image, 5) == transformed(transform, image, 5));
  CHECK(transformed(transform, image, 5) != transformed(transform, image, 6));
}

TEST_CASE("a transform that is used again gives the same results as a new one") {
  const Pixels pixels = noise(61, 47, 3);
  const ImageView image = energon::image_view(pixels, 61, 47, 3);
  ImageTransform used(training_steps(), kLevels);
  CallRng rng(9);
  CallRng same(9);
  Pixels result(std::size_t{24} * 20 * 3);
  Pixels expected(result.size());
  for (int i = 0; i < 50; ++i) {
    CAPTURE(i);
    used.run(image, rng, result);
    ImageTransform(training_steps(), kLevels).run(image, same, expected);
    REQUIRE(result == expected);
  }
}

TEST_CASE("a plan needs only its box, and gives the result of the whole image") {
  const Pixels pixels = noise(61, 47, 3);
  const ImageView image = energon::image_view(pixels, 61, 47, 3);
  ImageTransform transform(training_steps());
  for (std::uint32_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    CallRng rng(seed);
    const ImagePlan plan = transform.plan(61, 47, rng);
    Pixels result(std::size_t{24} * 20 * 3 * 4);
    const FractionalBox place = {.x = 0,
                                 .y = 0,
                                 .width = static_cast<double>(plan.box.width),
                                 .height = static_cast<double>(plan.box.height)};
    transform.run_planned(plan, energon::crop(image, plan.box), place, result);
    REQUIRE(result == transformed(transform, image, seed));
  }
}

TEST_CASE("a plan reports how small the box may be decoded") {
  CallRng rng(1);
  const std::vector<ImageStep> steps = {energon::ResizeTo{100, 50}};
  const ImagePlan plan = ImageTransform(steps).plan(1000, 100, rng);
  CHECK(plan.box == PixelBox{0, 0, 1000, 100});
  CHECK(plan.least_width == 100);
  CHECK(plan.least_height == 50);
  const ImagePlan careful = ImageTransform(steps, {.decode_margin = 4}).plan(1000, 100, rng);
  CHECK(careful.least_width == 400);
  CHECK(careful.least_height == 100);
  const ImagePlan larger = ImageTransform(steps).plan(20, 10, rng);
  CHECK(larger.least_width == 20);
  CHECK(larger.least_height == 10);
}

TEST_CASE("images that are smaller than a crop get a border") {
  const Pixels pixels(std::size_t{3} * 3 * 3, std::byte{50});
  const ImageView image = energon::image_view(pixels, 3, 3, 3);
  ImageTransformOptions options = kLevels;
  options.fill = {7, 7, 7};
  int number = 0;
  for (const ImageStep& step :
       {ImageStep(energon::CenterCrop{7, 9}), ImageStep(energon::RandomCrop{7, 9})}) {
    INFO("step " << number++);
    const Pixels result = transformed(ImageTransform({step}, options), image);
    CHECK(std::count(result.begin(), result.end(), std::byte{50}) == 27);
    CHECK(std::count(result.begin(), result.end(), std::byte{7}) == 7 * 9 * 3 - 27);
  }
}

TEST_CASE("gray images of one channel are transformed with the same steps") {
  const Pixels pixels = noise(61, 47, 1);
  ImageTransformOptions options = kLevels;
  options.channels = 1;
  const Pixels result = transformed(ImageTransform(training_steps(), options),
                                    energon::image_view(pixels, 61, 47, 1));
  CHECK(result.size() == 480);
}

TEST_CASE("colors are drawn after the geometry, gray with its probability") {
  const Pixels pixels = noise(6, 5, 3);
  const ImageView image = energon::image_view(pixels, 6, 5, 3);
  Pixels gray = pixels;
  energon::make_gray(gray, 3);
  CHECK(transformed(ImageTransform({energon::RandomGray{1}}, kLevels), image) == gray);
  CHECK(transformed(ImageTransform({energon::RandomGray{0}}, kLevels), image) == pixels);
}

TEST_CASE("invalid steps, options and images are refused") {
  CHECK(refusal({energon::ColorJitter{}, energon::ResizeTo{4, 4}}) ==
        "step 1 changes the geometry after a step that changes colors: put color steps last");
  CHECK_THAT(refusal({energon::ResizeTo{0, 4}}), Catch::StartsWith("the resized image has 0 x 4"));
  CHECK_THAT(refusal({energon::ResizeShortest{-4}}), Catch::StartsWith("the resized image has"));
  CHECK_THAT(refusal({energon::ResizeShortest{4, 0}}), Catch::StartsWith("the resized image has"));
  CHECK_THAT(refusal({energon::CenterCrop{4, INT64_MIN}}), Catch::StartsWith("the crop has"));
  CHECK_THAT(refusal({energon::RandomCrop{0, 4}}), Catch::StartsWith("the crop has"));
  CHECK_THAT(refusal({energon::Padding{INT64_MAX, 0, 0, 0}}), Catch::StartsWith("a border of"));
  CHECK_THAT(refusal({energon::RandomHorizontalFlip{2}}), Catch::Contains("2"));
  CHECK_THAT(refusal({energon::RandomRotation{{3, 2}}}), Catch::StartsWith("a range of 3 to 2"));
  CHECK_THAT(refusal({energon::ColorJitter{.hue = 1}}), Catch::StartsWith("ColorJitter::hue"));
  CHECK_THAT(refusal({energon::RandomGray{}}, {.channels = 4}),
             Catch::Contains("changes colors of images with 4 channels"));
  CHECK_THAT(refusal({}, {.channels = 0}), Catch::Contains("0 channels"));
  CHECK_THAT(refusal({}, {.decode_margin = NAN}), Catch::Contains("decode_margin of nan"));
  const Pixels pixels = noise(6, 5, 3);
  ImageTransform transform({}, kLevels);
  CallRng rng(1);
  Pixels room(90);
  const auto run_refusal = [&](const ImageView& image, std::span<std::byte> to) {
    return energon::testing::error_of([&] { transform.run(image, rng, to); },
                                      energon::ErrorCode::kInvalidArgument);
  };
  CHECK(run_refusal(energon::image_view(pixels, 6, 5, 3), std::span(room).first(89)) ==
        "the tensor needs 90 bytes, but the memory for it has 89");
  CHECK_THAT(run_refusal(energon::image_view(pixels, 18, 5, 1), room),
             Catch::Contains("an image with 1 channels of uint8: this transform expects 3"));
}
