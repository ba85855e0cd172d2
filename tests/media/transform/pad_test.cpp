#include <catch2/catch.hpp>

#include "media/transform/geometry.h"
#include "tests/media/transform/noise_image.h"
#include "tests/support/error_of.h"

using energon::PixelBox;
using energon::testing::noise;
using energon::testing::Pixels;

TEST_CASE("a border of one color surrounds the image") {
  const Pixels pixels = noise(2, 1, 2);
  const auto image = energon::image_view(pixels, 2, 1, 2);
  Pixels result(std::size_t{5} * 3 * 2);
  energon::pad(image, {.left = 1, .top = 2, .right = 2, .bottom = 0}, {10, 20}, result);
  for (std::size_t i = 0; i < result.size(); ++i) {
    CAPTURE(i);
    const bool inside = i >= 22 && i < 26;
    CHECK(result[i] == (inside ? pixels[i - 22] : std::byte(i % 2 == 0 ? 10 : 20)));
  }
}

TEST_CASE("padding makes images square, crops are placed as by torchvision") {
  const energon::Padding padding = energon::square_padding(10, 7);
  CHECK(padding.left == 0);
  CHECK(padding.right == 0);
  CHECK(padding.top == 1);
  CHECK(padding.bottom == 2);
  // int(round((image - crop) / 2)), a half to the even neighbor; and (crop - image) // 2 before.
  CHECK(energon::center_box(11, 13, 10, 10) == PixelBox{0, 2, 10, 10});
  CHECK(energon::center_box(15, 17, 10, 10) == PixelBox{2, 4, 10, 10});
  CHECK(energon::center_box(7, 6, 10, 10) == PixelBox{-1, -2, 10, 10});
}

TEST_CASE("borders and crops of impossible sizes are refused") {
  const Pixels pixels = noise(2, 1, 2);
  const auto image = energon::image_view(pixels, 2, 1, 2);
  const auto refusal = [](const auto& body) {
    return energon::testing::error_of(body, energon::ErrorCode::kInvalidArgument);
  };
  Pixels room(8);
  CHECK(refusal([&] { energon::pad(image, {.left = -1}, {}, room); }) ==
        "a border of -1 pixels: must be 0 to 16777216");
  CHECK_THAT(refusal([&] { energon::pad(image, {.right = 1}, {}, room); }),
             Catch::Contains("need 6 aligned bytes, the memory for them has 8"));
  CHECK_THAT(refusal([] { energon::center_box(4, 4, INT64_MIN, 1); }),
             Catch::StartsWith("the crop has"));
  CHECK_THAT(refusal([&] {
               energon::crop(image, {1, 0, 2, 1});
             }),
             Catch::Contains("is not inside an image of 2 x 1"));
  CHECK_THAT(refusal([&] {
               energon::crop(image, {0, INT64_MAX, 1, INT64_MAX});
             }),
             Catch::Contains("is not inside"));
  CHECK_THAT(refusal([&] { energon::image_view(pixels, 2, 2, 2); }),
             Catch::Contains("expected 8 bytes, found 4"));
}
