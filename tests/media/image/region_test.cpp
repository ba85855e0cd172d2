#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "io/error.h"
#include "media/image/image_decoder.h"
#include "tests/media/image/image_file.h"
#include "tests/media/image/vectors.h"
#include "tests/support/error_of.h"

namespace {

using energon::DecodedRegion;
using energon::FractionalBox;
using energon::ImageChannels;
using energon::PixelBox;
using energon::RegionRequest;
using energon::testing::image_file;

DecodedRegion region_of(const std::string& encoded, const RegionRequest& request,
                        bool oriented = false) {
  energon::HeapBufferPool memory;
  return energon::decode_region(energon::as_bytes(encoded), request, ImageChannels::kRgb, oriented,
                                {}, memory);
}

std::string pixels_of(const DecodedRegion& region) {
  return std::string(energon::as_text(region.pixels.bytes));
}

// The crop of the whole image when it is decoded at eighths/8.
RegionRequest scaled_request(const PixelBox& crop, int eighths) {
  const auto least = [&](std::int64_t size) {
    return eighths == 8 ? size : std::max<std::int64_t>(size * eighths / 8, 1);
  };
  return {.crop = crop, .least_width = least(crop.width), .least_height = least(crop.height)};
}

// Rows of pixels that `box` touches.
std::vector<std::string> inside(const DecodedRegion& region, const FractionalBox& box) {
  const auto x = static_cast<std::size_t>(box.x);
  const auto end = static_cast<std::size_t>(std::ceil(box.x + box.width));
  const std::string pixels = pixels_of(region);
  std::vector<std::string> rows;
  for (auto y = static_cast<std::size_t>(box.y); static_cast<double>(y) < box.y + box.height; ++y) {
    rows.push_back(
        pixels.substr((y * static_cast<std::size_t>(region.width) + x) * 3, (end - x) * 3));
  }
  return rows;
}

// All crops with edges at the starts of blocks of 8, 16 and 32 pixels and of their neighbors.
std::vector<PixelBox> crops_of(std::int64_t width, std::int64_t height) {
  std::vector<PixelBox> crops;
  for (const std::int64_t x : {0, 1, 7, 8, 15, 16, 17, 32, 33}) {
    for (const std::int64_t end : {1, 2, 9, 16, 17, 24, 31, 32, 33, 34, 44}) {
      for (const std::int64_t y : {0, 3, 8, 15, 16, 17, 31}) {
        if (x < end && end <= width && y < height) {
          crops.push_back({x, y, end - x, std::min<std::int64_t>(1 + (x + y) % 19, height - y)});
        }
      }
    }
  }
  return crops;
}

// Crops of an image of 37 rows have the pixels that they have in the whole image, at each scale.
void check_crops(const std::string& encoded, const std::string& name, std::int64_t width = 45) {
  for (const int eighths : {1, 2, 4, 8}) {
    const DecodedRegion whole = region_of(encoded, scaled_request({0, 0, width, 37}, eighths));
    const double scale = whole.box.width / static_cast<double>(width);
    int number = 0;
    for (const PixelBox& crop : crops_of(width, 37)) {
      INFO("crop " << number++);
      // The scale is free if the crop has few pixels: the requested size is one that gives
      // `eighths`.
      const RegionRequest request{
          .crop = crop,
          .least_width = std::max<std::int64_t>(crop.width * eighths / 8, 1),
          .least_height = std::max<std::int64_t>(crop.height * eighths / 8, 1)};
      const DecodedRegion part = region_of(encoded, request);
      if (part.box.width / static_cast<double>(crop.width) != scale) {
        continue;
      }
      const FractionalBox there{
          static_cast<double>(crop.x) * scale, static_cast<double>(crop.y) * scale,
          static_cast<double>(crop.width) * scale, static_cast<double>(crop.height) * scale};
      INFO(name << " " << eighths << "/8, " << crop.width << "x" << crop.height << " at " << crop.x
                << "," << crop.y);
      REQUIRE(inside(part, part.box) == inside(whole, there));
    }
  }
}

// The image with its first scans only.
std::string first_scans(const std::string& jpeg, int scans) {
  std::size_t end = jpeg.find("\xFF\xDA");
  for (int i = 1; i < scans; ++i) {
    end = jpeg.find("\xFF\xDA", end + 2);
  }
  const std::size_t next = jpeg.find("\xFF\xC4", end);  // tables of the next scan
  REQUIRE(next != std::string::npos);
  return jpeg.substr(0, next) + "\xFF\xD9";
}

}  // namespace

TEST_CASE("a scaled JPEG has the pixels of djpeg -scale", "[media][image]") {
  for (const auto& scaled : energon::testing::kScaledVectors) {
    INFO(scaled.name << " " << scaled.eighths);
    const PixelBox all{0, 0, 45, 37};
    const DecodedRegion region =
        region_of(image_file(scaled.name), scaled_request(all, scaled.eighths));
    CHECK(region.width == scaled.width);
    CHECK(region.height == scaled.height);
    CHECK(region.channels == 3);
    CHECK(region.box == FractionalBox{0, 0, 45 * scaled.eighths / 8.0, 37 * scaled.eighths / 8.0});
    CHECK(energon::xxh3_64(region.pixels.bytes) == scaled.rgb8);
  }
}

TEST_CASE("pixels of a crop equal those of the whole image at the same scale", "[media][image]") {
  for (const char* name :
       {"444.jpg", "422.jpg", "420.jpg", "440.jpg", "411.jpg", "progressive.jpg", "restart.jpg",
        "arithmetic.jpg", "gray.jpg", "cmyk.jpg", "lossy.webp", "lossy_alpha.webp"}) {
    check_crops(image_file(name), name);
  }
}

// libjpeg upsamples a single column of colors differently from several.
TEST_CASE("pixels of a narrow crop equal those of the whole image", "[media][image]") {
  for (const char* name : {"422.jpg", "420.jpg", "440.jpg", "411.jpg", "progressive.jpg"}) {
    std::string encoded = image_file(name);
    const std::size_t frame =
        std::min(encoded.find("\xFF\xC0"), encoded.find("\xFF\xC2"));  // either is missing
    for (const int width : {33, 34, 35, 36}) {  // with the same number of blocks
      encoded.at(frame + 8) = static_cast<char>(width);
      check_crops(encoded, fmt::format("{}, {} wide", name, width), width);
    }
  }
}

// libjpeg smooths blocks with missing coefficients, using those of their neighbors.
TEST_CASE("pixels of a crop equal those of the whole image if scans are missing",
          "[media][image]") {
  for (const int scans : {1, 3, 5}) {
    check_crops(first_scans(image_file("progressive.jpg"), scans),
                "progressive.jpg, scans: " + std::to_string(scans));
  }
}

TEST_CASE("a JPEG is decoded no larger than requested", "[media][image]") {
  const std::string encoded = image_file("420.jpg");
  const auto width = [&](std::int64_t least_width, std::int64_t least_height) {
    return region_of(
               encoded,
               {.crop = {0, 0, 45, 37}, .least_width = least_width, .least_height = least_height})
        .width;
  };
  CHECK(width(0, 0) == 45);
  CHECK(width(100, 100) == 45);
  CHECK(width(23, 1) == 45);  // half of it has 22.5
  CHECK(width(22, 18) == 23);
  CHECK(width(22, 19) == 45);  // half of it has 18.5
  CHECK(width(11, 9) == 12);
  CHECK(width(5, 4) == 6);
  CHECK(width(1, 1) == 6);
  const DecodedRegion part = region_of(encoded, {.crop = {18, 20, 4, 4}});
  CHECK(part.width == 7);  // from the block of 16 that it begins in, with one pixel more
  CHECK(part.height == 4);
  CHECK(part.box == FractionalBox{2, 0, 4, 4});
}

TEST_CASE("crops are in pixels of the turned image", "[media][image]") {
  for (int orientation = 2; orientation <= 8; ++orientation) {
    const std::string encoded = image_file("exif" + std::to_string(orientation) + ".jpg");
    const bool transposed = orientation >= 5;
    const std::int64_t width = transposed ? 12 : 20;
    const std::int64_t height = transposed ? 20 : 12;
    const DecodedRegion whole = region_of(encoded, {.crop = {0, 0, width, height}}, true);
    CHECK(whole.width == width);
    CHECK(whole.height == height);
    for (std::int64_t x = 0; x < width - 2; ++x) {
      for (std::int64_t y = 0; y < height - 3; ++y) {
        const DecodedRegion part = region_of(encoded, {.crop = {x, y, 2, 3}}, true);
        INFO(orientation << ": " << x << "," << y);
        REQUIRE(inside(part, part.box) ==
                inside(whole, {static_cast<double>(x), static_cast<double>(y), 2, 3}));
      }
    }
  }
}

TEST_CASE("other formats are decoded whole, with the requested crop", "[media][image]") {
  for (const char* name : {"rgb16.png", "interlaced.png", "local.gif", "tiles.tiff"}) {
    INFO(name);
    const std::string encoded = image_file(name);
    const DecodedRegion region =
        region_of(encoded, {.crop = {3, 4, 5, 6}, .least_width = 1, .least_height = 1});
    CHECK(region.width == 19);
    CHECK(region.height == 13);
    CHECK(region.box == FractionalBox{3, 4, 5, 6});
    CHECK(pixels_of(region) ==
          energon::testing::decoded(encoded, {.layout = energon::PixelLayout::kChannelsLast,
                                              .dtype = energon::DType::kUInt8}));
  }
}

TEST_CASE("crops that are not inside the image are refused", "[media][image]") {
  const std::int64_t most = INT64_MAX;
  int number = 0;
  for (const PixelBox& crop :
       {PixelBox{0, 0, 0, 5}, PixelBox{0, 0, 46, 5}, PixelBox{-1, 0, 5, 5}, PixelBox{0, 37, 5, 1},
        PixelBox{1, 0, most, 5}, PixelBox{most, most, most, most}, PixelBox{0, 0, 5, -3}}) {
    INFO("crop " << number++);
    const std::string message =
        energon::testing::error_of([&] { region_of(image_file("420.jpg"), {.crop = crop}); },
                                   energon::ErrorCode::kInvalidArgument);
    CHECK_THAT(message, Catch::Contains("is not inside the image of 45 x 37 pixels"));
  }
}
