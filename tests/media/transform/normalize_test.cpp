#include "media/transform/normalize.h"

#include <bit>
#include <cmath>

#include <catch2/catch.hpp>

#include "io/hash.h"
#include "tests/media/transform/noise_image.h"
#include "tests/media/transform/vectors.h"
#include "tests/support/error_of.h"

using energon::DType;
using energon::ImageView;
using energon::Normalizer;
using energon::OutputFormat;
using energon::testing::noise;
using energon::testing::numbers_in;
using energon::testing::Pixels;

namespace {

const OutputFormat kImageNet = {.mean = {0.485, 0.456, 0.406, 0.5},
                                .stddev = {0.229, 0.224, 0.225, 0.25}};

Pixels normalized(const ImageView& image, const OutputFormat& format, bool mirrored = false) {
  Pixels result(static_cast<std::size_t>(image.width * image.height * image.channels) *
                energon::size_of(format.dtype));
  Normalizer(format, image.channels).run(image, result, mirrored);
  return result;
}

// The float32 element of a tensor for pixel (x, y) of a channel.
float element(const Pixels& tensor, const OutputFormat& format, const ImageView& image,
              std::int64_t x, std::int64_t y, int channel) {
  const std::int64_t index = format.channels_first
                                 ? (channel * image.height + y) * image.width + x
                                 : (y * image.width + x) * image.channels + channel;
  return numbers_in<float>(tensor)[static_cast<std::size_t>(index)];
}

std::uint16_t to_bfloat16(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number);
  return static_cast<std::uint16_t>((bits + 0x7FFF + (bits >> 16 & 1U)) >> 16);
}

std::string refusal(const OutputFormat& format, int channels) {
  return energon::testing::error_of([&] { Normalizer(format, channels); },
                                    energon::ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("normalized levels equal those of torchvision within 1e-6") {
  Pixels levels(256);
  for (std::size_t i = 0; i < levels.size(); ++i) {
    levels[i] = static_cast<std::byte>(i);
  }
  const Pixels result = normalized(energon::image_view(levels, 16, 16, 1), kImageNet);
  CHECK(energon::testing::largest_difference<float>(
            result, energon::testing::from_vector(energon::testing::kNormalized)) <= 1e-6);
}

TEST_CASE("without mean and stddev, levels become 0 to 1 exactly") {
  const Pixels levels = {std::byte{0}, std::byte{51}, std::byte{255}};
  const auto result =
      numbers_in<float>(normalized(energon::image_view(levels, 3, 1, 1), OutputFormat{}));
  CHECK(result == std::vector<float>{0, 0.2F, 1});
}

TEST_CASE("all layouts have the same numbers, with all instruction sets, sizes and channels") {
  for (const int channels : {1, 2, 3, 4}) {
    CAPTURE(channels);
    for (const std::int64_t width : {1, 3, 8, 15, 16, 17, 33, 50}) {
      CAPTURE(width);
      const Pixels pixels = noise(width, 3, channels);
      const ImageView image = energon::image_view(pixels, width, 3, channels);
      for (const bool first : {true, false}) {
        CAPTURE(first);
        OutputFormat format = kImageNet;
        format.channels_first = first;
        const Pixels expected = normalized(image, format);
        const Pixels mirrored = normalized(image, format, true);
        for (std::int64_t i = 0; i < width * 3; ++i) {
          CAPTURE(i);
          for (int channel = 0; channel < channels; ++channel) {
            CAPTURE(channel);
            const auto c = static_cast<std::size_t>(channel);
            const auto level = static_cast<double>(
                pixels[static_cast<std::size_t>(i) * static_cast<std::size_t>(channels) + c]);
            const double value = (level / 255 - format.mean[c]) / format.stddev[c];
            const std::int64_t x = i % width;
            REQUIRE(std::abs(static_cast<double>(
                                 element(expected, format, image, x, i / width, channel)) -
                             value) < 1e-6);
            REQUIRE(element(mirrored, format, image, width - 1 - x, i / width, channel) ==
                    element(expected, format, image, x, i / width, channel));
          }
        }
        energon::testing::with_all_instructions([&] {
          REQUIRE(normalized(image, format) == expected);
          REQUIRE(normalized(image, format, true) == mirrored);
        });
      }
    }
  }
}

TEST_CASE("16-bit tensors have the rounded numbers of float32 tensors") {
  const Pixels pixels = noise(37, 5, 3);
  const ImageView image = energon::image_view(pixels, 37, 5, 3);
  for (const bool first : {true, false}) {
    CAPTURE(first);
    for (const bool mirrored : {true, false}) {
      CAPTURE(mirrored);
      OutputFormat format = kImageNet;
      format.channels_first = first;
      const auto numbers = numbers_in<float>(normalized(image, format, mirrored));
      std::vector<std::uint16_t> halves;
      std::vector<std::uint16_t> bfloats;
      for (const float number : numbers) {
        halves.push_back(energon::to_float16(number));
        bfloats.push_back(to_bfloat16(number));
      }
      format.dtype = DType::kFloat16;
      CHECK(numbers_in<std::uint16_t>(normalized(image, format, mirrored)) == halves);
      format.dtype = DType::kBFloat16;
      energon::testing::with_all_instructions([&] {
        CHECK(numbers_in<std::uint16_t>(normalized(image, format, mirrored)) == bfloats);
      });
    }
  }
}

TEST_CASE("bfloat16 rounds halves to the even neighbor") {
  // Levels 1 and 3 become 257 and 259, halfway between numbers of bfloat16.
  const Pixels levels = {std::byte{1}, std::byte{2}, std::byte{3}, std::byte{5}};
  const OutputFormat format = {
      .dtype = DType::kBFloat16, .mean = {-256.0 / 255}, .stddev = {1.0 / 255, 1, 1, 1}};
  energon::testing::with_all_instructions([&] {
    CHECK(numbers_in<std::uint16_t>(normalized(energon::image_view(levels, 4, 1, 1), format)) ==
          std::vector<std::uint16_t>{0x4380, 0x4381, 0x4382, 0x4382});
  });
}

TEST_CASE("float16 numbers equal those of numpy") {
  std::vector<std::uint16_t> halves;
  for (std::uint64_t bits = 0; bits < std::uint64_t{1} << 32; bits += 65521 * 17) {
    const auto number = std::bit_cast<float>(static_cast<std::uint32_t>(bits));
    if (!std::isnan(number)) {
      halves.push_back(energon::to_float16(number));
    }
  }
  CHECK(energon::xxh3_64(std::as_bytes(std::span(halves))) == energon::testing::kHalvesDigest);
  CHECK(energon::to_float16(std::nanf("")) == 0x7E00);
}

TEST_CASE("uint8 tensors have the levels, channels first or last") {
  const Pixels pixels = noise(5, 2, 3);
  const ImageView image = energon::image_view(pixels, 5, 2, 3);
  OutputFormat format = {.dtype = DType::kUInt8, .channels_first = false};
  CHECK(normalized(image, format) == pixels);
  format.channels_first = true;
  const Pixels planes = normalized(image, format, true);
  for (std::size_t i = 0; i < 30; ++i) {
    CAPTURE(i);
    CHECK(planes[i] == pixels[(i / 5 % 2 * 5 + 4 - i % 5) * 3 + i / 10]);
  }
}

TEST_CASE("output_spec describes the tensor") {
  CHECK(energon::output_spec({}, 7, 5, 3) ==
        energon::TensorSpec{.dtype = DType::kFloat32, .shape = {3, 5, 7}});
  CHECK(energon::output_spec({.dtype = DType::kUInt8, .channels_first = false}, 7, 5, 1) ==
        energon::TensorSpec{.dtype = DType::kUInt8, .shape = {5, 7, 1}});
}

TEST_CASE("invalid formats and buffers are refused") {
  CHECK(refusal({.dtype = DType::kInt64}, 3) ==
        "pixels as int64: expected uint8, float16, bfloat16 or float32");
  CHECK(refusal({}, 5) == "an image with 5 channels: must be 1 to 4");
  CHECK_THAT(refusal({.stddev = {1, 0, 1, 1}}, 3),
             Catch::Contains("channel 1 has a mean of 0 and a stddev of 0"));
  CHECK_THAT(refusal({.mean = {0, 0, NAN, 0}}, 3), Catch::Contains("channel 2"));
  CHECK_THAT(refusal({.dtype = DType::kUInt8, .mean = {0.5}}, 3),
             Catch::Contains("uint8 contains unchanged levels"));
  const Pixels pixels = noise(5, 2, 3);
  const auto run_refusal = [&](const ImageView& image, std::size_t begin, std::size_t size) {
    std::vector<float> room(64);
    const auto bytes = std::as_writable_bytes(std::span(room)).subspan(begin, size);
    return energon::testing::error_of([&] { Normalizer({}, 3).run(image, bytes); },
                                      energon::ErrorCode::kInvalidArgument);
  };
  const ImageView image = energon::image_view(pixels, 5, 2, 3);
  CHECK_THAT(run_refusal(image, 0, 119), Catch::Contains("need 120 aligned bytes"));
  CHECK_THAT(run_refusal(image, 2, 120), Catch::Contains("need 120 aligned bytes"));
  CHECK_THAT(run_refusal(energon::image_view(pixels, 30, 1, 1), 0, 120),
             Catch::Contains("an image with 1 channels of uint8: expected 3 of uint8"));
}
