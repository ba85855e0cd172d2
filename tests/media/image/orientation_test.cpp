#include "media/image/orientation.h"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "media/image/image_decoder.h"
#include "media/image/row_writer.h"
#include "media/metadata/image_metadata.h"
#include "tests/media/image/image_file.h"

namespace {

using energon::DType;
using energon::ImageOptions;
using energon::PixelLayout;
using energon::RowFormat;
using energon::testing::decoded;
using energon::testing::image_file;

// Writes the rows "ABC", "DEF" of one channel with `orientation`.
std::string turned(int orientation) {
  const std::string rows = "ABCDEF";
  std::string result(6, '?');
  energon::RowWriter writer({.width = 3, .height = 2, .channels = 1},
                            {.data = reinterpret_cast<std::byte*>(result.data()),
                             .channels = 1,
                             .orientation = orientation});
  writer.put(0, energon::as_bytes(rows).data(), 3, 2);
  return result;
}

// The definition in EXIF: a transform of columns and rows for each orientation.
std::string oriented(const std::string& pixels, std::size_t width, std::size_t height,
                     std::size_t pixel, int orientation) {
  const bool swaps = orientation >= 5;
  const std::size_t out_width = swaps ? height : width;
  std::string result(pixels.size(), '\0');
  for (std::size_t y = 0; y < height; ++y) {
    for (std::size_t x = 0; x < width; ++x) {
      const std::size_t left = std::vector<std::size_t>{0, x, width - 1 - x,  width - 1 - x,
                                                        x, y, height - 1 - y, height - 1 - y,
                                                        y}[static_cast<std::size_t>(orientation)];
      const std::size_t top =
          std::vector<std::size_t>{0,
                                   y,
                                   y,
                                   height - 1 - y,
                                   height - 1 - y,
                                   x,
                                   x,
                                   width - 1 - x,
                                   width - 1 - x}[static_cast<std::size_t>(orientation)];
      result.replace((top * out_width + left) * pixel, pixel, pixels, (y * width + x) * pixel,
                     pixel);
    }
  }
  return result;
}

std::string exif(const std::string& entry, char order = 'I') {
  const std::string little("II*\0\x08\0\0\0\x01\0", 10);
  const std::string big("MM\0*\0\0\0\x08\0\x01", 10);
  return (order == 'I' ? little : big) + entry;
}

int orientation_of(const std::string& bytes) {
  return energon::exif_orientation(energon::as_bytes(bytes));
}

// bigtiff.tiff with another value of its tag Orientation.
std::string tiff_with(int orientation) {
  std::string tiff = image_file("bigtiff.tiff");
  const std::string tag("\x12\x01\x03\0\x01\0\0\0\0\0\0\0", 12);
  const std::size_t place = tiff.find(tag) + tag.size();
  REQUIRE(tiff.at(place) == 8);
  tiff[place] = static_cast<char>(orientation);
  return tiff;
}

}  // namespace

TEST_CASE("the eight orientations follow EXIF", "[media][image]") {
  CHECK(turned(1) == "ABCDEF");
  CHECK(turned(2) == "CBAFED");
  CHECK(turned(3) == "FEDCBA");
  CHECK(turned(4) == "DEFABC");
  CHECK(turned(5) == "ADBECF");
  CHECK(turned(6) == "DAEBFC");
  CHECK(turned(7) == "FCEBDA");
  CHECK(turned(8) == "CFBEAD");
}

TEST_CASE("images are turned in all layouts on request", "[media][image]") {
  for (int orientation = 2; orientation <= 8; ++orientation) {
    INFO(orientation);
    const std::string encoded = image_file("exif" + std::to_string(orientation) + ".jpg");
    for (const DType dtype : {DType::kUInt8, DType::kFloat32}) {
      const std::size_t element = energon::size_of(dtype);
      ImageOptions options{.layout = PixelLayout::kChannelsLast, .dtype = dtype};
      const std::string stored = decoded(encoded, options);
      options.apply_orientation = true;
      CHECK(decoded(encoded, options) == oriented(stored, 20, 12, 3 * element, orientation));
      options.layout = PixelLayout::kChannelsFirst;
      const std::string planes = decoded(encoded, options);
      options.apply_orientation = false;
      const std::string stored_planes = decoded(encoded, options);
      const std::size_t plane = 20 * 12 * element;
      for (std::size_t channel = 0; channel < 3; ++channel) {
        CHECK(planes.substr(channel * plane, plane) ==
              oriented(stored_planes.substr(channel * plane, plane), 20, 12, element, orientation));
      }
    }
  }
}

TEST_CASE("orientations of other formats and depths are applied too", "[media][image]") {
  for (const auto& [name, orientation] : {std::pair("exif6.png", 6), std::pair("exif5.webp", 5)}) {
    INFO(name);
    ImageOptions options{.layout = PixelLayout::kChannelsLast};
    const std::string stored = decoded(image_file(name), options);
    options.apply_orientation = true;
    CHECK(decoded(image_file(name), options) == oriented(stored, 19, 13, 12, orientation));
  }
}

TEST_CASE("a TIFF is always turned, wherever its size is reported", "[media][image]") {
  const std::string stored = decoded(tiff_with(1), {.layout = PixelLayout::kChannelsLast});
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const std::string tiff = tiff_with(orientation);
    const energon::ByteView bytes = energon::as_bytes(tiff);
    const auto [width, height] = orientation >= 5 ? std::pair(13, 19) : std::pair(19, 13);
    for (const bool apply : {false, true}) {
      CAPTURE(apply);
      const ImageOptions options{.layout = PixelLayout::kChannelsLast, .apply_orientation = apply};
      CHECK(decoded(tiff, options) == oriented(stored, 19, 13, 12, orientation));
      CHECK(energon::ImageDecoder(options).probe(bytes).shape ==
            std::vector<std::int64_t>{height, width, 3});
      const energon::ImageSize size = energon::decoded_size(energon::probe_image(bytes), apply);
      CHECK((size.width == width && size.height == height));
    }
    const energon::MediaMetadata metadata = energon::read_image_metadata(bytes);
    CHECK((metadata.width == width && metadata.height == height));
  }
}

TEST_CASE("a crop of a TIFF is a crop of the turned image", "[media][image]") {
  const ImageOptions options{.layout = PixelLayout::kChannelsLast, .dtype = DType::kUInt8};
  for (int orientation = 1; orientation <= 8; ++orientation) {
    CAPTURE(orientation);
    const std::string tiff = tiff_with(orientation);
    const std::string whole = decoded(tiff, options);
    const std::size_t width = orientation >= 5 ? 13 : 19;
    const energon::DecodedRegion region = energon::decode_region(
        energon::as_bytes(tiff), {.crop = {.x = 4, .y = 5, .width = 7, .height = 6}},
        energon::ImageChannels::kRgb, false, {}, energon::heap_memory());
    const auto x = static_cast<std::size_t>(region.box.x);
    const auto y = static_cast<std::size_t>(region.box.y);
    CHECK((region.box.width == 7 && region.box.height == 6));
    for (std::size_t row = 0; row < 6; ++row) {
      CAPTURE(row);
      const std::string_view pixels = energon::as_text(region.pixels.bytes);
      CHECK(pixels.substr(((y + row) * static_cast<std::size_t>(region.width) + x) * 3, 21) ==
            whole.substr(((5 + row) * width + 4) * 3, 21));
    }
  }
}

TEST_CASE("16-bit rows are turned like others", "[media][image]") {
  const std::vector<std::uint16_t> rows = {0, 65535, 32768, 1, 2, 3};
  for (const DType dtype : {DType::kUInt8, DType::kFloat32}) {
    CAPTURE(dtype);
    std::string upright(6 * energon::size_of(dtype), '?');
    for (int orientation = 1; orientation <= 8; ++orientation) {
      CAPTURE(orientation);
      std::string result(upright.size(), '?');
      energon::RowWriter writer({.width = 3, .height = 2, .channels = 1, .bits = 16},
                                {.data = reinterpret_cast<std::byte*>(result.data()),
                                 .dtype = dtype,
                                 .channels = 1,
                                 .orientation = orientation});
      writer.put(0, reinterpret_cast<const std::byte*>(rows.data()), 6, 2);
      if (orientation == 1) {
        upright = result;
      }
      CHECK(result == oriented(upright, 3, 2, energon::size_of(dtype), orientation));
    }
  }
}

TEST_CASE("an orientation that is absent or damaged is 1", "[media][image]") {
  const std::string six("\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 12);
  CHECK(orientation_of(exif(six)) == 6);
  CHECK(orientation_of(std::string("Exif\0\0", 6) + exif(six)) == 6);
  CHECK(orientation_of(exif(std::string("\x01\x12\0\x03\0\0\0\x01\0\x08\0\0", 12), 'M')) == 8);
  CHECK(orientation_of(exif(std::string("\x12\x01\x04\0\x01\0\0\0\x03\0\0\0", 12))) == 3);
  CHECK(orientation_of(exif(std::string("\x12\x01\x03\0\x01\0\0\0\x09\0\0\0", 12))) == 1);
  CHECK(orientation_of(exif(std::string("\x12\x01\x03\0\x01\0\0\0\0\0\0\0", 12))) == 1);
  CHECK(orientation_of(exif(std::string("\x12\x01\x07\0\x01\0\0\0\x06\0\0\0", 12))) == 1);
  CHECK(orientation_of(exif(std::string("\x0F\x01\x03\0\x01\0\0\0\x06\0\0\0", 12))) == 1);
  CHECK(orientation_of("") == 1);
  CHECK(orientation_of(std::string("II*\0\xFF\xFF\xFF\xFF", 8)) == 1);
  for (std::size_t size = 0; size < 20; ++size) {
    CAPTURE(size);
    CHECK(orientation_of(exif(six).substr(0, size)) == 1);
  }
}
