#include <catch2/catch.hpp>

#include "media/transform/affine.h"
#include "media/transform/warp.h"
#include "tests/media/transform/noise_image.h"
#include "tests/support/error_of.h"

using energon::AffineOptions;
using energon::AffineScratch;
using energon::AffineSteps;
using energon::FractionalBox;
using energon::ImageView;
using energon::PixelBox;
using energon::ResizeFilter;
using energon::testing::largest_difference;
using energon::testing::noise;
using energon::testing::Pixels;

namespace {

FractionalBox fractional(const PixelBox& box) {
  return {.x = static_cast<double>(box.x),
          .y = static_cast<double>(box.y),
          .width = static_cast<double>(box.width),
          .height = static_cast<double>(box.height)};
}

// The whole source exists.
Pixels drawn(const ImageView& image, const AffineSteps& steps, const AffineOptions& options = {}) {
  Pixels result(static_cast<std::size_t>(steps.width() * steps.height() * image.pixel_bytes()));
  AffineScratch scratch;
  energon::draw_affine(image, fractional(steps.needed_box(options.filter)), steps, options, scratch,
                       result);
  return result;
}

// Only the needed pixels exist.
Pixels drawn_from_needed(const ImageView& image, const AffineSteps& steps) {
  Pixels result(static_cast<std::size_t>(steps.width() * steps.height() * image.pixel_bytes()));
  AffineScratch scratch;
  const PixelBox box = steps.needed_box(ResizeFilter::kBilinear);
  FractionalBox place = fractional(box);
  place.x = place.y = 0;
  energon::draw_affine(energon::crop(image, box), place, steps, {}, scratch, result);
  return result;
}

Pixels resized(const ImageView& image, std::int64_t width, std::int64_t height,
               const energon::ResizeOptions& options = {}) {
  Pixels result(static_cast<std::size_t>(width * height * image.pixel_bytes()));
  energon::Resizer().resize(image, width, height, options, result);
  return result;
}

// A smooth image, for which all good resamplings are similar.
Pixels gradient(std::int64_t width, std::int64_t height) {
  Pixels pixels;
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (const std::int64_t level : {x * 255 / width, y * 255 / height, std::int64_t{90}}) {
        pixels.push_back(static_cast<std::byte>(level));
      }
    }
  }
  return pixels;
}

}  // namespace

TEST_CASE("a crop that is resized has only the pixels of the crop") {
  const Pixels pixels = noise(40, 30, 3);
  const ImageView image = energon::image_view(pixels, 40, 30, 3);
  AffineSteps steps(40, 30);
  steps.crop({5, 3, 31, 22});
  steps.resize(12, 9);
  CHECK(drawn(image, steps) == resized(energon::crop(image, {5, 3, 31, 22}), 12, 9));
  CHECK(steps.needed_box(ResizeFilter::kBilinear) == PixelBox{5, 3, 31, 22});
  steps.flip_horizontal();
  CHECK(drawn(image, steps) ==
        resized(energon::crop(image, {5, 3, 31, 22}), 12, 9, {.flip_horizontal = true}));
}

TEST_CASE("a resize that is cropped has the pixels of the resized image") {
  const Pixels pixels = noise(40, 30, 3);
  const ImageView image = energon::image_view(pixels, 40, 30, 3);
  AffineSteps steps(40, 30);
  steps.resize(27, 20);
  steps.crop({4, 6, 15, 11});
  const Pixels whole = resized(image, 27, 20);
  const ImageView part = energon::crop(energon::image_view(whole, 27, 20, 3), {4, 6, 15, 11});
  CHECK(drawn(image, steps) == resized(part, 15, 11));
}

TEST_CASE("flips and quarter turns before and after a resize are exact") {
  const Pixels pixels = noise(40, 30, 3);
  const ImageView image = energon::image_view(pixels, 40, 30, 3);
  for (const double degrees : {90.0, -90.0, 180.0}) {
    AffineSteps turn(40, 30);
    turn.rotate(degrees);
    turn.crop({5, 0, 30, 30});  // a square in the middle, without corners to fill
    const Pixels turned = drawn(image, turn);
    AffineSteps both = turn;
    both.resize(13, 11);
    both.flip_vertical();
    const Pixels expected =
        resized(energon::image_view(turned, 30, 30, 3), 13, 11, {.flip_vertical = true});
    INFO(degrees);
    // Rows and columns are resized in another order.
    CHECK(largest_difference<std::uint8_t>(drawn(image, both), expected) <= 1);
  }
}

TEST_CASE("pixels that a decoder left out have no influence") {
  const Pixels pixels = noise(60, 50, 3);
  const ImageView image = energon::image_view(pixels, 60, 50, 3);
  for (const double degrees : {0.0, 90.0, 17.0, -63.0}) {
    for (const bool crop_first : {true, false}) {
      AffineSteps steps(60, 50);
      if (crop_first) {
        steps.crop({13, 11, 37, 29});
      }
      steps.resize(41, 33);
      steps.crop({10, 8, 19, 17});
      steps.rotate(degrees);
      steps.resize(9, 10);
      INFO(degrees << ' ' << crop_first);
      CHECK(steps.needed_box(ResizeFilter::kBilinear).width < 60);
      CHECK(drawn(image, steps) == drawn_from_needed(image, steps));
    }
  }
}

TEST_CASE("a rotation without scaling is a warp, and several become one") {
  const Pixels pixels = noise(20, 20, 3);
  const ImageView image = energon::image_view(pixels, 20, 20, 3);
  AffineSteps steps(20, 20);
  steps.rotate(50);
  steps.rotate(-20);
  Pixels expected(pixels.size());
  energon::warp_affine(image, energon::rotation(30, 10, 10), 20, 20, {}, expected);
  CHECK(largest_difference<std::uint8_t>(drawn(image, steps), expected) <= 1);
  steps.rotate(-30);
  CHECK(largest_difference<std::uint8_t>(drawn(image, steps), pixels) <= 1);
}

TEST_CASE("a rotated image that shrinks is smoothed, not sampled") {
  // Alternating columns of 0 and 255: sampling would give both, and their mean is 128.
  Pixels pixels;
  for (int i = 0; i < 200 * 200; ++i) {
    pixels.push_back(i % 2 == 0 ? std::byte{0} : std::byte{255});
  }
  const ImageView image = energon::image_view(pixels, 200, 200, 1);
  AffineSteps steps(200, 200);
  steps.rotate(8);
  steps.crop({50, 50, 100, 100});
  steps.resize(12, 12);
  for (const std::byte level : drawn(image, steps)) {
    CAPTURE(level);
    CHECK(std::abs(static_cast<int>(level) - 128) < 12);
  }
}

TEST_CASE("a source that was decoded smaller gives nearly the same result") {
  const Pixels pixels = gradient(320, 240);
  const ImageView image = energon::image_view(pixels, 320, 240, 3);
  const Pixels half = resized(image, 160, 120);
  const ImageView half_image = energon::image_view(half, 160, 120, 3);
  for (const double degrees : {0.0, 90.0, 12.0}) {
    AffineSteps steps(320, 240);
    steps.crop({41, 23, 201, 177});
    steps.rotate(degrees);
    steps.crop({30, 30, 120, 110});
    steps.resize(40, 36);
    FractionalBox place = fractional(steps.needed_box(ResizeFilter::kBilinear));
    place = {place.x / 2, place.y / 2, place.width / 2, place.height / 2};
    Pixels result(std::size_t{40} * 36 * 3);
    AffineScratch scratch;
    energon::draw_affine(half_image, place, steps, {}, scratch, result);
    INFO(degrees);
    CHECK(largest_difference<std::uint8_t>(result, drawn(image, steps)) <= 4);
  }
}

TEST_CASE("pixels outside the source have the fill color") {
  const Pixels pixels(std::size_t{4} * 4 * 1, std::byte{9});
  const ImageView image = energon::image_view(pixels, 4, 4, 1);
  AffineSteps border(4, 4);
  border.crop({-2, -2, 8, 8});
  const Pixels framed = drawn(image, border, {.fill = {200}});
  CHECK(std::count(framed.begin(), framed.end(), std::byte{200}) == 48);
  border.resize(4, 4);
  const Pixels small = drawn(image, border, {.fill = {200}});
  CHECK(small[0] == std::byte{200});
  CHECK(small[5] == std::byte{9});
  AffineSteps outside(4, 4);
  outside.crop({2, 2, 2, 2});
  outside.crop({-2, -2, 2, 2});  // was cropped earlier
  CHECK(drawn(image, outside, {.fill = {200}}) == Pixels(4, std::byte{200}));
  AffineSteps far(4, 4);
  far.crop({100, 0, 3, 3});
  far.rotate(45);
  CHECK(drawn(image, far, {.fill = {200}}) == Pixels(9, std::byte{200}));
}

TEST_CASE("invalid steps and places are refused") {
  const auto refusal = [](const auto& body) {
    return energon::testing::error_of(body, energon::ErrorCode::kInvalidArgument);
  };
  AffineSteps steps(10, 10);
  CHECK_THAT(refusal([] { AffineSteps(0, 3); }), Catch::StartsWith("the source has 0 x 3 pixels"));
  CHECK_THAT(refusal([&] { steps.resize(-1, 3); }), Catch::StartsWith("the resized image has"));
  CHECK_THAT(refusal([&] {
               steps.crop({INT64_MIN, 0, 1, 1});
             }),
             Catch::StartsWith("a crop at (-9223372036854775808, 0)"));
  CHECK_THAT(refusal([&] { steps.rotate(NAN); }), Catch::StartsWith("a rotation by nan"));
  const Pixels pixels = noise(10, 10, 1);
  const ImageView image = energon::image_view(pixels, 10, 10, 1);
  Pixels room(100);
  AffineScratch scratch;
  int number = 0;
  for (const FractionalBox& place : {FractionalBox{0, 0, 10.5, 10},
                                     {-1, 0, 10, 10},
                                     {0, 0, 0, 10},
                                     {NAN, 0, 10, 10},
                                     {0, 0, 10, INFINITY}}) {
    INFO("place " << number++);
    CHECK_THAT(refusal([&] { energon::draw_affine(image, place, steps, {}, scratch, room); }),
               Catch::Contains("not inside the image of 10 x 10"));
  }
  CHECK_THAT(
      refusal([&] {
        energon::draw_affine(image, {0, 0, 10, 10}, steps, {}, scratch, std::span(room).first(99));
      }),
      Catch::Contains("need 100 aligned bytes"));
}
