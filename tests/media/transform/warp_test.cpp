#include "media/transform/warp.h"

#include <catch2/catch.hpp>

#include "tests/media/transform/noise_image.h"
#include "tests/media/transform/vectors.h"
#include "tests/support/error_of.h"

using energon::AffineMatrix;
using energon::DType;
using energon::ImageView;
using energon::WarpFilter;
using energon::WarpOptions;
using energon::testing::noise;
using energon::testing::Pixels;

namespace {

Pixels warped(const ImageView& image, const AffineMatrix& map, std::int64_t width,
              std::int64_t height, const WarpOptions& options = {}) {
  Pixels result(static_cast<std::size_t>(width * height * image.pixel_bytes()));
  energon::warp_affine(image, map, width, height, options, result);
  return result;
}

std::byte level(int number) { return static_cast<std::byte>(number); }

// Bilinear interpolation from its definition, with a border of `fill`.
double defined(const ImageView& image, int channel, double x, double y, double fill) {
  const auto at = [&](double column, double row) {
    const bool inside = column >= 0 && row >= 0 && column < static_cast<double>(image.width) &&
                        row < static_cast<double>(image.height);
    return inside ? static_cast<double>(image.row(static_cast<std::int64_t>(
                        row))[static_cast<std::int64_t>(column) * image.channels + channel])
                  : fill;
  };
  const double left = std::floor(x - 0.5);
  const double top = std::floor(y - 0.5);
  const double across = x - 0.5 - left;
  const double down = y - 0.5 - top;
  return (at(left, top) * (1 - across) + at(left + 1, top) * across) * (1 - down) +
         (at(left, top + 1) * (1 - across) + at(left + 1, top + 1) * across) * down;
}

}  // namespace

TEST_CASE("rotated images are within 1 level of torchvision's") {
  const Pixels pixels = noise(17, 13, 3);
  const ImageView image = energon::crop(energon::image_view(pixels, 17, 13, 3), {0, 0, 11, 9});
  for (const auto& expected : energon::testing::kRotated) {
    const Pixels result = warped(image, energon::rotation(expected.degrees, 5.5, 4.5), 11, 9,
                                 {.filter = expected.filter});
    INFO(expected.degrees << " degrees, filter " << static_cast<int>(expected.filter));
    CHECK(energon::testing::largest_difference<std::uint8_t>(
              result, energon::testing::from_vector(expected.result)) <=
          (expected.filter == WarpFilter::kNearest ? 0 : 1));
  }
}

TEST_CASE("bilinear pixels and their border are within 1 level of the definition") {
  const double fill = 200;
  const AffineMatrix map =
      energon::compose(energon::rotation(25, 6, 5), {0.7, 0.1, 2.3, 0, 0.9, 1});
  for (const int channels : {1, 2, 3, 4}) {
    CAPTURE(channels);
    const Pixels pixels = noise(9, 8, channels);
    const ImageView image = energon::image_view(pixels, 9, 8, channels);
    const Pixels result = warped(image, map, 12, 10, {.fill = {fill, fill, fill, fill}});
    for (std::size_t i = 0; i < result.size(); ++i) {
      CAPTURE(i);
      const auto count = static_cast<std::size_t>(channels);
      const std::size_t pixel = i / count;
      const auto [x, y] = energon::apply(map, static_cast<double>(pixel % 12) + 0.5,
                                         static_cast<double>(pixel / 12) + 0.5);
      REQUIRE(std::abs(static_cast<double>(result[i]) -
                       defined(image, static_cast<int>(i % count), x, y, fill)) < 1);
    }
  }
}

TEST_CASE("float32 images are warped without rounding to levels") {
  const Pixels levels = noise(9, 8, 3);
  const Pixels pixels = energon::testing::as_floats(levels);
  const ImageView image = energon::image_view(pixels, 9, 8, 3, DType::kFloat32);
  const ImageView level_image = energon::image_view(levels, 9, 8, 3);
  const AffineMatrix map = energon::rotation(25, 6, 5);
  const auto result = energon::testing::numbers_in<float>(warped(image, map, 12, 10));
  for (std::size_t i = 0; i < result.size(); ++i) {
    CAPTURE(i);
    const auto [x, y] = energon::apply(map, static_cast<double>(i / 3 % 12) + 0.5,
                                       static_cast<double>(i / 36) + 0.5);
    REQUIRE(static_cast<double>(result[i]) ==
            Approx(defined(level_image, static_cast<int>(i % 3), x, y, 0) / 256).margin(1e-6));
  }
}

TEST_CASE("flips, quarter turns and shifts are copies, with the fill around them") {
  const Pixels pixels = {level(1), level(2), level(3), level(4), level(5), level(6)};
  const ImageView image = energon::image_view(pixels, 3, 2, 1);
  const auto levels = [](std::initializer_list<int> list) {
    Pixels result;
    std::transform(list.begin(), list.end(), std::back_inserter(result), level);
    return result;
  };
  CHECK(warped(image, {}, 3, 2) == pixels);
  CHECK(warped(image, {.a = -1, .c = 3}, 3, 2) == levels({3, 2, 1, 6, 5, 4}));
  CHECK(warped(image, {.e = -1, .f = 2}, 3, 2) == levels({4, 5, 6, 1, 2, 3}));
  CHECK(warped(image, {.a = 0, .b = 1, .c = 0, .d = 1, .e = 0, .f = 0}, 2, 3) ==
        levels({1, 4, 2, 5, 3, 6}));
  CHECK(warped(image, energon::translation(1, 0), 2, 2) == levels({2, 3, 5, 6}));
  CHECK(warped(image, energon::translation(2, 1), 2, 2, {.fill = {9.4}}) == levels({6, 9, 9, 9}));
}

TEST_CASE("maps far away show the fill, and maps too far away are refused") {
  const Pixels pixels = noise(5, 4, 3);
  const ImageView image = energon::image_view(pixels, 5, 4, 3);
  for (const double far : {1e6, -1e8}) {
    CAPTURE(far);
    const Pixels result = warped(image, {1.5, 0, far, 0, 1.5, far}, 4, 4, {.fill = {7, 7, 7, 7}});
    CHECK(result == Pixels(48, level(7)));
  }
  const auto refusal = [&](const AffineMatrix& map, std::size_t room) {
    Pixels result(room);
    return energon::testing::error_of([&] { energon::warp_affine(image, map, 4, 4, {}, result); },
                                      energon::ErrorCode::kInvalidArgument);
  };
  CHECK(refusal({1, 0, 1e9, 0, 1, 0}, 48) ==
        "the map moves the corner (0, 0) of the result to (1000000000, 0): it must be within "
        "268435456 pixels");
  CHECK_THAT(refusal({NAN, 0, 0, 0, 1, 0}, 48), Catch::StartsWith("the map moves the corner"));
  CHECK_THAT(refusal({1e300, 0, 0, 0, 1, 0}, 48), Catch::StartsWith("the map moves the corner"));
  CHECK_THAT(refusal({}, 47), Catch::Contains("need 48 aligned bytes"));
}
