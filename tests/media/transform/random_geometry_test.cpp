#include <cmath>

#include <catch2/catch.hpp>

#include "media/transform/geometry.h"
#include "tests/media/transform/vectors.h"
#include "tests/support/error_of.h"

using energon::CallRng;
using energon::PixelBox;
using energon::RandomRange;

namespace {

// Words that `body` draws.
template <class Body>
int words_drawn(const Body& body) {
  CallRng drawn(11);
  body(drawn);
  const std::uint32_t next = drawn();
  CallRng counted(11);
  int words = 0;
  while (counted() != next) {
    ++words;
  }
  return words;
}

template <class Body>
std::string geometry_refusal(const Body& body) {
  return energon::testing::error_of(body, energon::ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("random boxes have areas, ratios and places as torchvision's distribution") {
  CallRng rng(5);
  const int count = 20000;
  double area = 0;
  double log_ratio = 0;
  double place = 0;
  for (int i = 0; i < count; ++i) {
    CAPTURE(i);
    const PixelBox box = energon::random_resized_crop_box(rng, 1000, 1000, {0.1, 0.5});
    REQUIRE((box.x >= 0 && box.y >= 0 && box.x + box.width <= 1000 && box.y + box.height <= 1000));
    const auto width = static_cast<double>(box.width);
    const auto height = static_cast<double>(box.height);
    area += width * height / 1e6 / count;
    log_ratio += std::log(width / height) / count;
    place += static_cast<double>(box.x) / (1000 - width) / count;
    REQUIRE((width / height > 0.74 && width / height < 1.35));
  }
  CHECK(area == Approx(0.3).margin(0.003));
  CHECK(log_ratio == Approx(0).margin(0.005));
  CHECK(place == Approx(0.5).margin(0.01));
}

TEST_CASE("if no random box fits, the largest one in the middle is used") {
  CallRng rng(5);
  CHECK(energon::random_resized_crop_box(rng, 100, 10, {4, 4}) == PixelBox{43, 0, 13, 10});
  CHECK(energon::random_resized_crop_box(rng, 10, 100, {4, 4}) == PixelBox{0, 43, 10, 13});
  CHECK(energon::random_resized_crop_box(rng, 10, 10, {4, 4}) == PixelBox{0, 0, 10, 10});
  CHECK(energon::random_resized_crop_box(rng, 1, 1000, {4, 4}, {5, 6}) == PixelBox{0, 499, 1, 1});
}

TEST_CASE("the boxes of a seed stay the same") {
  CallRng rng(42);
  const PixelBox first = energon::random_resized_crop_box(rng, 640, 480);
  const PixelBox second = energon::random_resized_crop_box(rng, 640, 480);
  const PixelBox third = energon::random_crop_box(rng, 640, 480, 224, 224);
  CHECK(first == energon::testing::kRandomBoxes[0]);
  CHECK(second == energon::testing::kRandomBoxes[1]);
  CHECK(third == energon::testing::kRandomBoxes[2]);
}

TEST_CASE("random functions draw as documented in their headers") {
  CHECK(words_drawn([](CallRng& rng) { energon::draw_between(rng, {2, 2}); }) == 2);
  CHECK(words_drawn([](CallRng& rng) { energon::random_crop_box(rng, 9, 9, 9, 9); }) == 4);
  CHECK(words_drawn([](CallRng& rng) { energon::random_flip(rng, 0); }) == 2);
  CHECK(words_drawn([](CallRng& rng) { energon::random_rotation_angle(rng, {-5, 5}); }) == 2);
  CHECK(words_drawn([](CallRng& rng) {
          energon::random_resized_crop_box(rng, 50, 50, {0.5, 0.5}, {1, 1});
        }) == 8);
  CHECK(words_drawn([](CallRng& rng) {
          energon::random_resized_crop_box(rng, 50, 50, {4, 4}, {1, 1});
        }) == 40);
}

TEST_CASE("random crops reach every place") {
  CallRng rng(1);
  std::array<int, 12> places = {};
  for (int i = 0; i < 6000; ++i) {
    const PixelBox box = energon::random_crop_box(rng, 8, 7, 5, 5);
    ++places[static_cast<std::size_t>(box.y * 4 + box.x)];
  }
  for (const int count : places) {
    CAPTURE(count);
    CHECK((count > 400 && count < 600));
  }
}

TEST_CASE("invalid ranges and sizes are refused") {
  CallRng rng(1);
  CHECK(geometry_refusal([&] {
          energon::draw_between(rng, {2, 1});
        }) == "a range of 2 to 1: expected two finite numbers, the lower one first");
  CHECK_THAT(geometry_refusal([&] {
               energon::draw_between(rng, {0, INFINITY});
             }),
             Catch::StartsWith("a range of 0 to inf"));
  CHECK(geometry_refusal([&] {
          energon::random_resized_crop_box(rng, 9, 9, {0, 1});
        }) == "a scale of 0 to 1: both must be above 0");
  CHECK(geometry_refusal([&] {
          energon::random_resized_crop_box(rng, 9, 9, {1, 1}, {-1, 1});
        }) == "a ratio of -1 to 1: both must be above 0");
  CHECK_THAT(geometry_refusal([&] { energon::random_resized_crop_box(rng, 0, 9); }),
             Catch::StartsWith("the image has 0 x 9 pixels"));
  CHECK(geometry_refusal([&] { energon::random_crop_box(rng, 9, 9, 10, 9); }) ==
        "a crop of 10 x 9 pixels from an image of 9 x 9: pad or resize the image first");
  CHECK_THAT(geometry_refusal([&] { energon::random_flip(rng, 1.5); }), Catch::Contains("1.5"));
}
