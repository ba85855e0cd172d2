#include "media/transform/resize.h"

#include <catch2/catch.hpp>

#include "io/hash.h"
#include "tests/media/transform/noise_image.h"
#include "tests/media/transform/vectors.h"
#include "tests/support/error_of.h"

using energon::DType;
using energon::FractionalBox;
using energon::ImageView;
using energon::ResizeFilter;
using energon::ResizeOptions;
using energon::Resizer;
using energon::testing::noise;
using energon::testing::Pixels;

namespace {

Pixels resized(const ImageView& image, const FractionalBox& box, std::int64_t width,
               std::int64_t height, const ResizeOptions& options) {
  Pixels result(static_cast<std::size_t>(width * height * image.pixel_bytes()));
  Resizer().resize(image, box, width, height, options, result);
  return result;
}

FractionalBox whole(const ImageView& image) {
  return {.x = 0,
          .y = 0,
          .width = static_cast<double>(image.width),
          .height = static_cast<double>(image.height)};
}

std::string refusal(const ImageView& image, const FractionalBox& box, std::int64_t width,
                    std::int64_t height, std::size_t room) {
  Pixels result(room);
  return energon::testing::error_of(
      [&] { Resizer().resize(image, box, width, height, {}, result); },
      energon::ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("resized uint8 images equal those of Pillow, with all instruction sets") {
  energon::testing::with_all_instructions([] {
    for (const auto& expected : energon::testing::kPillowResizes) {
      energon::Xxh3Stream digest;
      for (const int channels : {1, 3, 4}) {
        const Pixels pixels = noise(expected.width, expected.height, channels);
        const ImageView image =
            energon::image_view(pixels, expected.width, expected.height, channels);
        digest.update(resized(image, expected.box, expected.to_width, expected.to_height,
                              {.filter = expected.filter}));
      }
      INFO(expected.width << " x " << expected.height << " to " << expected.to_width << " x "
                          << expected.to_height << ", filter "
                          << static_cast<int>(expected.filter));
      CHECK(digest.digest() == expected.digest);
    }
  });
}

TEST_CASE("resized uint8 images are within 1 level of torch's") {
  for (const auto& expected : energon::testing::kTorchByteResizes) {
    CAPTURE(expected.width, expected.height, expected.to_width, expected.to_height);
    const Pixels pixels = noise(expected.width, expected.height, 3);
    const ImageView image = energon::image_view(pixels, expected.width, expected.height, 3);
    const Pixels result = resized(image, whole(image), expected.to_width, expected.to_height,
                                  {.filter = expected.filter, .antialias = expected.antialias});
    CHECK(energon::testing::largest_difference<std::uint8_t>(
              result, energon::testing::from_vector(expected.result)) <= 1);
  }
}

TEST_CASE("resized float32 images are within 1e-5 of torch's") {
  for (const auto& expected : energon::testing::kTorchFloatResizes) {
    CAPTURE(expected.width, expected.height, expected.to_width, expected.to_height);
    const Pixels pixels = energon::testing::as_floats(noise(expected.width, expected.height, 1));
    const ImageView image =
        energon::image_view(pixels, expected.width, expected.height, 1, DType::kFloat32);
    const Pixels result = resized(image, whole(image), expected.to_width, expected.to_height,
                                  {.filter = expected.filter, .antialias = expected.antialias});
    CHECK(energon::testing::largest_difference<float>(
              result, energon::testing::from_vector(expected.result)) <= 1e-5);
  }
}

TEST_CASE("a flipped resize has the pixels of the upright one, mirrored") {
  const Pixels pixels = noise(31, 22, 3);
  const ImageView image = energon::image_view(pixels, 31, 22, 3);
  const Pixels upright = resized(image, whole(image), 14, 9, {});
  const Pixels flipped =
      resized(image, whole(image), 14, 9, {.flip_horizontal = true, .flip_vertical = true});
  for (std::size_t y = 0; y < 9; ++y) {
    CAPTURE(y);
    for (std::size_t x = 0; x < 14; ++x) {
      CAPTURE(x);
      for (std::size_t c = 0; c < 3; ++c) {
        CAPTURE(c);
        REQUIRE(flipped[((8 - y) * 14 + 13 - x) * 3 + c] == upright[(y * 14 + x) * 3 + c]);
      }
    }
  }
}

TEST_CASE("rows with bytes between them, and boxes at every edge, read only allowed bytes") {
  // Exactly the bytes of the view, so that a sanitizer sees one byte too many.
  for (const int channels : {1, 2, 3, 4}) {
    CAPTURE(channels);
    for (const std::int64_t width : {1, 2, 3, 4, 5, 6, 7, 9, 16, 33}) {
      CAPTURE(width);
      const std::int64_t row_bytes = width * channels + 3;
      const std::int64_t height = 5;
      Pixels memory = noise(row_bytes * (height - 1) + width * channels, 1, 1);
      ImageView image{.data = memory.data(),
                      .width = width,
                      .height = height,
                      .channels = channels,
                      .row_bytes = row_bytes};
      Pixels packed;
      for (std::int64_t y = 0; y < height; ++y) {
        packed.insert(packed.end(), image.row(y), image.row(y) + width * channels);
      }
      const ImageView dense = energon::image_view(packed, width, height, channels);
      for (const std::int64_t to_width : {1, 3, 8, 40}) {
        CAPTURE(to_width);
        REQUIRE(resized(image, whole(image), to_width, 4, {}) ==
                resized(dense, whole(image), to_width, 4, {}));
      }
    }
  }
}

TEST_CASE("a resizer that is used again gives the same results as a new one") {
  Resizer resizer;
  for (int round = 0; round < 3; ++round) {
    CAPTURE(round);
    for (const std::int64_t side : {40, 9, 23, 31, 12, 7}) {
      CAPTURE(side);
      const Pixels pixels = noise(side, side + 4, 3);
      const ImageView image = energon::image_view(pixels, side, side + 4, 3);
      Pixels result(std::size_t{15} * 11 * 3);
      resizer.resize(image, 15, 11, {}, result);
      REQUIRE(result == resized(image, whole(image), 15, 11, {}));
    }
  }
}

TEST_CASE("an image of one level keeps it, with any filter and size") {
  const Pixels pixels(std::size_t{57} * 41 * 3, std::byte{255});
  const ImageView image = energon::image_view(pixels, 57, 41, 3);
  for (const ResizeFilter filter : {ResizeFilter::kNearest, ResizeFilter::kBox,
                                    ResizeFilter::kBilinear, ResizeFilter::kBicubic}) {
    CAPTURE(filter);
    for (const bool antialias : {true, false}) {
      CAPTURE(antialias);
      for (const std::int64_t side : {1, 2, 13, 80}) {
        CAPTURE(side);
        const Pixels result = resized(image, whole(image), side, side + 1,
                                      {.filter = filter, .antialias = antialias});
        REQUIRE(result == Pixels(result.size(), std::byte{255}));
      }
    }
  }
}

TEST_CASE("a tall image that becomes a wide one is refused before memory is allocated") {
  const Pixels pixels(std::size_t{1} << 16);
  const ImageView image = energon::image_view(pixels, 1, 1 << 16, 1);
  Pixels result(std::size_t{1} << 16);
  CHECK_THAT(energon::testing::error_of([&] { Resizer().resize(image, 1 << 16, 1, {}, result); },
                                        energon::ErrorCode::kResourceExhausted),
             Catch::Contains("would take 4294967296 bytes, the limit is 2147483648"));
}

TEST_CASE("invalid resizes are refused with the reason") {
  const Pixels pixels = noise(17, 13, 3);
  const ImageView image = energon::image_view(pixels, 17, 13, 3);
  const double nan = std::nan("");
  CHECK(refusal(image, whole(image), 4, 4, 47) ==
        "4 x 4 pixels of 3 uint8 need 48 aligned bytes, the memory for them has 47");
  CHECK(refusal(image, whole(image), 0, 4, 0) ==
        "the resized image has 0 x 4 pixels: both must be 1 to 16777216");
  CHECK(refusal(image, whole(image), 4, 1LL << 62, 0) ==
        "the resized image has 4 x 4611686018427387904 pixels: both must be 1 to 16777216");
  int number = 0;
  for (const FractionalBox& box : {FractionalBox{0, 0, 17.001, 13},
                                   {-0.1, 0, 4, 4},
                                   {0, 0, 0, 4},
                                   {nan, 0, 4, 4},
                                   {0, 0, nan, 4},
                                   {0, 12, 4, 1.5},
                                   {0, 0, INFINITY, 4},
                                   {1e300, 0, 4, 4}}) {
    INFO("box " << number++);
    CHECK_THAT(refusal(image, box, 4, 4, 48), Catch::Contains("is not inside an image of"));
  }
  ImageView wrong = image;
  wrong.channels = 5;
  CHECK_THAT(refusal(wrong, whole(image), 4, 4, 80), Catch::Contains("an image with 5 channels"));
  wrong = image;
  wrong.dtype = DType::kInt64;
  CHECK_THAT(refusal(wrong, whole(image), 4, 4, 80), Catch::Contains("an image of int64"));
  wrong = image;
  wrong.row_bytes = 50;
  CHECK_THAT(refusal(wrong, whole(image), 4, 4, 48), Catch::Contains("must not overlap"));
  wrong = image;
  wrong.data = nullptr;
  CHECK_THAT(refusal(wrong, whole(image), 4, 4, 48), Catch::Contains("data is null"));
}
