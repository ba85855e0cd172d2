#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "media/image/image_decoder.h"
#include "tests/media/image/image_file.h"
#include "tests/media/image/vectors.h"
#include "tests/support/shared_data.h"

namespace {

using energon::DType;
using energon::ImageChannels;
using energon::ImageOptions;
using energon::PixelLayout;
using energon::testing::decoded;
using energon::testing::decoded_hash;
using energon::testing::image_file;
using energon::testing::ImageVector;

ImageOptions last(ImageChannels channels, DType dtype = DType::kUInt8) {
  return {.channels = channels, .layout = PixelLayout::kChannelsLast, .dtype = dtype};
}

void check_pixels_of(const ImageVector& image, const std::string& encoded) {
  INFO(image.name);
  CHECK(decoded_hash(encoded, last(ImageChannels::kRgb)) == image.rgb8);
  CHECK(decoded_hash(encoded, last(ImageChannels::kAsStored)) == image.stored8);
  CHECK(decoded_hash(encoded, last(ImageChannels::kGray)) == image.gray8);
  CHECK(decoded_hash(encoded, last(ImageChannels::kAsStored, DType::kFloat32)) == image.stored_f);
}

// Elements of a row-major (height, width, channels) as (channels, height, width).
template <class T>
std::string planes_of(const std::string& interleaved, std::size_t channels) {
  const std::size_t values = interleaved.size() / sizeof(T);
  const std::size_t pixels = values / channels;
  std::string planes(interleaved.size(), '\0');
  for (std::size_t i = 0; i < values; ++i) {
    std::memcpy(planes.data() + (i % channels * pixels + i / channels) * sizeof(T),
                interleaved.data() + i * sizeof(T), sizeof(T));
  }
  return planes;
}

std::vector<float> as_floats(const std::string& bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

}  // namespace

TEST_CASE("headers of all kinds of images are read", "[media][image]") {
  for (const ImageVector& image : energon::testing::kImageVectors) {
    INFO(image.name);
    const energon::ImageInfo info = energon::probe_image(energon::as_bytes(image_file(image.name)));
    CHECK(info.width == image.width);
    CHECK(info.height == image.height);
    CHECK(info.channels == image.channels);
    CHECK(info.bits == image.bits);
    CHECK(info.orientation == image.orientation);
    CHECK(info.frames == image.frames);
  }
}

TEST_CASE("pixels equal those that other programs decode", "[media][image]") {
  for (const ImageVector& image : energon::testing::kImageVectors) {
    check_pixels_of(image, image_file(image.name));
  }
}

TEST_CASE("photographs have the pixels of djpeg and pngtopnm", "[media][image]") {
  const auto folder = energon::testing::shared_data("images");
  if (!folder) {
    return energon::testing::skipped();
  }
  for (const ImageVector& image : energon::testing::kPhotographs) {
    check_pixels_of(image, energon::testing::file_bytes(*folder + "/" + image.name));
  }
}

TEST_CASE("channels first has the same values as channels last", "[media][image]") {
  for (const ImageVector& image : energon::testing::kImageVectors) {
    INFO(image.name);
    const std::string encoded = image_file(image.name);
    ImageOptions options = last(ImageChannels::kAsStored);
    const auto channels = static_cast<std::size_t>(image.channels);
    const std::string bytes = decoded(encoded, options);
    options.dtype = DType::kFloat32;
    const std::string floats = decoded(encoded, options);
    options.layout = PixelLayout::kChannelsFirst;
    CHECK(decoded(encoded, options) == planes_of<float>(floats, channels));
    options.dtype = DType::kUInt8;
    CHECK(decoded(encoded, options) == planes_of<std::uint8_t>(bytes, channels));
  }
}

TEST_CASE("float32 is the correctly rounded quotient", "[media][image]") {
  const std::string encoded = image_file("444.jpg");
  const std::string bytes = decoded(encoded, last(ImageChannels::kRgb));
  const std::vector<float> floats =
      as_floats(decoded(encoded, last(ImageChannels::kRgb, DType::kFloat32)));
  REQUIRE(floats.size() == bytes.size());
  for (std::size_t i = 0; i < floats.size(); ++i) {
    CAPTURE(i);
    REQUIRE(floats[i] == static_cast<float>(static_cast<unsigned char>(bytes[i])) / 255.0F);
  }
}

TEST_CASE("shapes follow layout and channels", "[media][image]") {
  using Shape = std::vector<std::int64_t>;
  const std::string encoded = image_file("exif6.png");
  const auto shape = [&](const ImageOptions& options) {
    return energon::ImageDecoder(options).probe(energon::as_bytes(encoded)).shape;
  };
  CHECK(shape({}) == Shape{3, 13, 19});
  CHECK(shape({.channels = ImageChannels::kGray}) == Shape{1, 13, 19});
  CHECK(shape({.apply_orientation = true}) == Shape{3, 19, 13});
  CHECK(shape(last(ImageChannels::kRgba)) == Shape{13, 19, 4});
  CHECK(shape(last(ImageChannels::kGray)) == Shape{13, 19});
  CHECK(energon::ImageDecoder().probe(energon::as_bytes(encoded)).dtype == DType::kFloat32);
}

TEST_CASE("missing alpha is opaque, existing alpha is kept", "[media][image]") {
  const std::string opaque = decoded(image_file("gray8.png"), last(ImageChannels::kRgba));
  const std::string gray = decoded(image_file("gray8.png"), last(ImageChannels::kGray));
  for (std::size_t i = 0; i < gray.size(); ++i) {
    REQUIRE(opaque.substr(4 * i, 4) == std::string(3, gray[i]) + "\xFF");
  }
  CHECK(decoded(image_file("rgba8.png"), last(ImageChannels::kRgba)) ==
        decoded(image_file("rgba8.png"), last(ImageChannels::kAsStored)));
  for (const char* name : {"420.jpg", "gray.jpg", "cmyk.jpg", "lossy.webp", "lzw.tiff"}) {
    INFO(name);
    const std::string rgb = decoded(image_file(name), last(ImageChannels::kRgb));
    const std::string rgba = decoded(image_file(name), last(ImageChannels::kRgba));
    REQUIRE(rgba.size() / 4 == rgb.size() / 3);
    for (std::size_t i = 0; i < rgb.size() / 3; ++i) {
      REQUIRE(rgba.substr(4 * i, 4) == rgb.substr(3 * i, 3) + "\xFF");
    }
  }
}

TEST_CASE("decoding writes all of its memory", "[media][image]") {
  const std::string encoded = image_file("part.gif");
  for (const PixelLayout layout : {PixelLayout::kChannelsLast, PixelLayout::kChannelsFirst}) {
    CAPTURE(layout);
    const energon::ImageDecoder decoder({.layout = layout, .dtype = DType::kUInt8});
    std::vector<std::byte> zeros(3 * 19 * 13, std::byte{0});
    std::vector<std::byte> ones(zeros.size(), std::byte{0xFF});
    decoder.decode_into(energon::as_bytes(encoded), zeros);
    decoder.decode_into(energon::as_bytes(encoded), ones);
    CHECK(zeros == ones);
  }
}
