#include <algorithm>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/error.h"
#include "media/image/image_decoder.h"
#include "media/image/pixel_rows.h"
#include "tests/media/image/image_file.h"
#include "tests/support/error_of.h"

namespace {

using energon::DType;
using energon::ErrorCode;
using energon::ImageChannels;
using energon::PixelLayout;
using energon::testing::error_of;
using energon::testing::image_file;

}  // namespace

TEST_CASE("TIFFs of signed samples are refused, with their kind and a remedy", "[media][image]") {
  for (const auto& [name, bits] : {std::pair("signed8.tiff", 8), std::pair("signed16.tiff", 16)}) {
    CAPTURE(name);
    const std::string tiff = image_file(name);
    CHECK_THAT(error_of([&] { energon::testing::decoded(tiff, {}); }, ErrorCode::kUnsupported),
               Catch::Contains("signed samples of " + std::to_string(bits) + " bits") &&
                   Catch::Contains("SampleFormat is 2") && Catch::Contains(".npy"));
  }
}

TEST_CASE("tiles that libtiff converts have the pixels of strips", "[media][image]") {
  const energon::ImageOptions options{.dtype = DType::kUInt8};
  const std::string strips = energon::testing::decoded(image_file("lab.tiff"), options);
  CHECK(std::count(strips.begin(), strips.end(), strips.front()) < 300);  // not all of one color
  CHECK(energon::testing::decoded(image_file("lab_tiles.tiff"), options) == strips);
}

TEST_CASE("Energon's names of modes give dtype, layout and channels", "[media][image]") {
  struct Mode {
    const char* name;
    ImageChannels channels;
    PixelLayout layout;
    DType dtype;
  };
  constexpr auto kFirst = PixelLayout::kChannelsFirst;
  constexpr auto kLast = PixelLayout::kChannelsLast;
  const std::vector<Mode> modes = {{"l8", ImageChannels::kGray, kLast, DType::kUInt8},
                                   {"rgb8", ImageChannels::kRgb, kLast, DType::kUInt8},
                                   {"rgba8", ImageChannels::kRgba, kLast, DType::kUInt8},
                                   {"l", ImageChannels::kGray, kLast, DType::kFloat32},
                                   {"rgb", ImageChannels::kRgb, kLast, DType::kFloat32},
                                   {"rgba", ImageChannels::kRgba, kLast, DType::kFloat32},
                                   {"torchl8", ImageChannels::kGray, kFirst, DType::kUInt8},
                                   {"torchrgb8", ImageChannels::kRgb, kFirst, DType::kUInt8},
                                   {"torchrgba8", ImageChannels::kRgba, kFirst, DType::kUInt8},
                                   {"torchl", ImageChannels::kGray, kFirst, DType::kFloat32},
                                   {"torchrgb", ImageChannels::kRgb, kFirst, DType::kFloat32},
                                   {"torch", ImageChannels::kRgb, kFirst, DType::kFloat32},
                                   {"torchrgba", ImageChannels::kRgba, kFirst, DType::kFloat32},
                                   {"pill", ImageChannels::kGray, kLast, DType::kUInt8},
                                   {"pil", ImageChannels::kAsStored, kLast, DType::kUInt8},
                                   {"pilrgb", ImageChannels::kRgb, kLast, DType::kUInt8},
                                   {"pilrgba", ImageChannels::kRgba, kLast, DType::kUInt8}};
  const auto names = energon::image_mode_names();
  REQUIRE(names.size() == modes.size());
  for (std::size_t i = 0; i < modes.size(); ++i) {
    INFO(modes[i].name);
    CHECK(names[i] == modes[i].name);
    const auto options = energon::image_options_of_mode(modes[i].name);
    REQUIRE(options);
    CHECK(options->channels == modes[i].channels);
    CHECK(options->layout == modes[i].layout);
    CHECK(options->dtype == modes[i].dtype);
    CHECK_FALSE(options->apply_orientation);
  }
  for (const char* name : {"", "8", "rgb88", "torch8", "pil8", "RGB", "torchtorch"}) {
    CHECK_FALSE(energon::image_options_of_mode(name));
  }
}

TEST_CASE("images have no other dtypes", "[media][image]") {
  CHECK(error_of([] { energon::ImageDecoder({.dtype = DType::kBFloat16}); },
                 ErrorCode::kInvalidArgument) ==
        "images are decoded to uint8 or float32, not to bfloat16");
}

TEST_CASE("memory of another size or alignment is refused", "[media][image]") {
  const std::string encoded = image_file("gray8.png");
  const energon::ImageDecoder decoder({.channels = ImageChannels::kGray});
  alignas(4) std::byte memory[4 * 19 * 13 + 1];
  const std::span<std::byte> all(memory);
  const auto decode = [&](std::span<std::byte> to) {
    return error_of([&] { decoder.decode_into(energon::as_bytes(encoded), to); },
                    ErrorCode::kInvalidArgument);
  };
  CHECK_THAT(decode(all), Catch::Contains("needs 988 bytes, but the memory for it has 989"));
  CHECK_THAT(decode(all.first(987)),
             Catch::Contains("needs 988 bytes, but the memory for it has 987"));
  CHECK_THAT(decode(all.subspan(1)), Catch::Contains("not aligned to 4 bytes"));
  CHECK(decode(all.first(988)) == "no error");
}

TEST_CASE("the vector loops divide and split exactly, for any length", "[media][image]") {
  std::vector<std::uint16_t> words(65536);
  std::vector<std::uint8_t> bytes(256);
  for (std::size_t i = 0; i < words.size(); ++i) {
    words[i] = static_cast<std::uint16_t>(i);
    bytes[i % 256] = static_cast<std::uint8_t>(i);
  }
  std::vector<float> floats(words.size());
  energon::scale_row(words.data(), 65536, floats.data());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    CAPTURE(i);
    REQUIRE(floats[i] == static_cast<float>(i) / 65535.0F);
  }
  for (std::int64_t length = 0; length < 80; ++length) {
    CAPTURE(length);
    std::vector<float> some(100, -1.0F);
    energon::scale_row(bytes.data() + 100, length, some.data());
    for (std::int64_t i = 0; i < 100; ++i) {
      CAPTURE(i);
      const auto at = static_cast<std::size_t>(i);
      REQUIRE(some[at] == (i < length ? static_cast<float>(100 + i) / 255.0F : -1.0F));
    }
  }
}

TEST_CASE("rows of every width are split into planes, and nothing after them is written",
          "[media][image]") {
  std::vector<std::uint8_t> bytes(256);
  std::iota(bytes.begin(), bytes.end(), std::uint8_t{0});
  for (int channels = 2; channels <= 4; ++channels) {
    CAPTURE(channels);
    for (std::int64_t width = 0; width <= 256 / channels; ++width) {
      CAPTURE(width);
      std::vector<int> expected(4 * 130, 99);
      for (std::int64_t i = 0; i < width * channels; ++i) {
        expected[static_cast<std::size_t>(i % channels * 130 + i / channels)] = static_cast<int>(i);
      }
      std::vector<std::uint8_t> planes(4 * 130, 99);
      energon::split_row(bytes.data(), width, channels, planes.data(), 130);
      REQUIRE(std::vector<int>(planes.begin(), planes.end()) == expected);
    }
  }
}

TEST_CASE("wide rows are split over several pieces", "[media][image]") {
  constexpr std::int64_t kWidth = 1100;
  std::vector<std::uint16_t> row(3 * kWidth);
  for (std::size_t i = 0; i < row.size(); ++i) {
    row[i] = static_cast<std::uint16_t>(i * 19);
  }
  std::vector<float> planes(3 * kWidth + 1, -1.0F);
  energon::split_row(row.data(), kWidth, 3, planes.data(), kWidth);
  for (std::size_t i = 0; i < row.size(); ++i) {
    CAPTURE(i);
    REQUIRE(planes[i % 3 * kWidth + i / 3] == static_cast<float>(row[i]) / 65535.0F);
  }
  CHECK(planes.back() == -1.0F);
}

TEST_CASE("16-bit values become the nearest 8-bit ones", "[media][image]") {
  for (const auto& [wide, narrow] : std::vector<std::pair<std::uint16_t, int>>{{0, 0},
                                                                               {128, 0},
                                                                               {129, 1},
                                                                               {257, 1},
                                                                               {32767, 127},
                                                                               {32768, 128},
                                                                               {65406, 254},
                                                                               {65407, 255},
                                                                               {65535, 255}}) {
    std::uint8_t result = 77;
    energon::narrow_row(&wide, 1, &result);
    INFO(wide);
    CHECK(result == narrow);
  }
}
