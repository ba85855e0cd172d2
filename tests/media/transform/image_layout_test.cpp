#include "media/transform/image_layout.h"

#include <limits>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "media/transform/image_transform.h"
#include "tests/media/image/image_file.h"
#include "tests/media/transform/model_vectors.h"
#include "tests/media/transform/noise_image.h"
#include "tests/support/error_of.h"

using energon::CallRng;
using energon::DType;
using energon::ImageGrid;
using energon::ImageLayout;
using energon::ImageTransform;
using energon::ImageTransformOptions;
using energon::PatchLayout;
using energon::TileLayout;
using energon::testing::noise;
using energon::testing::Pixels;

namespace {

using Shape = std::vector<std::int64_t>;

PatchLayout layout_of(const energon::testing::PatchNumbers& numbers) {
  return {.patch = numbers.patch,
          .temporal = numbers.temporal,
          .merge = numbers.merge,
          .min_pixels = numbers.min_pixels,
          .max_pixels = numbers.max_pixels};
}

ImageTransformOptions options_of(const ImageLayout& layout, DType dtype = DType::kUInt8) {
  return {.format = {.dtype = dtype},
          .filter = energon::ResizeFilter::kBicubic,
          .decode_margin = std::numeric_limits<double>::infinity(),
          .layout = layout};
}

struct Result {
  Shape shape;
  ImageGrid grid;
  Pixels bytes;
};

// The layout of an image of noise.
Result of_noise(std::int64_t width, std::int64_t height, const ImageTransformOptions& options,
                std::vector<energon::ImageStep> steps = {}) {
  ImageTransform transform(std::move(steps), options);
  const Pixels pixels = noise(width, height, 3);
  CallRng rng(1);
  const energon::ImagePlan plan = transform.plan(width, height, rng);
  const energon::TensorSpec spec = transform.output(plan);
  Result result = {spec.shape, plan.grid, Pixels(energon::tensor_bytes(spec.dtype, spec.shape))};
  transform.run_planned(plan, energon::image_view(pixels, width, height, 3),
                        {.x = static_cast<double>(plan.box.x),
                         .y = static_cast<double>(plan.box.y),
                         .width = static_cast<double>(plan.box.width),
                         .height = static_cast<double>(plan.box.height)},
                        result.bytes);
  return result;
}

// The sum of make_model_vectors.py.
std::uint64_t levels_sum(const Pixels& levels) {
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < levels.size(); ++i) {
    sum += std::to_integer<std::uint64_t>(levels[i]) * (i % 65521 + 1);
  }
  return sum;
}

std::string refusal(const ImageTransformOptions& options) {
  return energon::testing::error_of([&] { ImageTransform({}, options); },
                                    energon::ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("smart_resize() equals that of transformers", "[media][layout]") {
  for (const auto& one : energon::testing::kSmartResizes) {
    INFO(one.width << " x " << one.height << ", " << one.factor << ", " << one.max_pixels);
    const auto size =
        energon::smart_resize({one.width, one.height}, one.factor, one.min_pixels, one.max_pixels);
    CHECK(size.width == one.new_width);
    CHECK(size.height == one.new_height);
  }
  CHECK(energon::testing::error_of(
            [] {
              energon::smart_resize({201, 1}, 28, 1, 100);
            },
            energon::ErrorCode::kInvalidArgument)
            .find("at most 200 times the other") != std::string::npos);
}

TEST_CASE("the grid of tiles equals that of transformers", "[media][layout]") {
  for (const auto& one : energon::testing::kTileGrids) {
    INFO(one.width << " x " << one.height << ", tiles " << one.min_tiles << " to "
                   << one.max_tiles);
    CHECK(energon::tile_grid({one.width, one.height}, {.width = one.tile,
                                                       .height = one.tile,
                                                       .min_tiles = one.min_tiles,
                                                       .max_tiles = one.max_tiles}) ==
          ImageGrid{.rows = one.rows, .columns = one.columns});
  }
}

TEST_CASE("patches equal those of transformers", "[media][layout]") {
  for (const auto& one : energon::testing::kPatches) {
    INFO(one.width << " x " << one.height);
    const PatchLayout layout = layout_of(one.layout);
    const Result result = of_noise(one.width, one.height, options_of(layout));
    CHECK(result.shape ==
          Shape{one.rows * one.columns, 3 * layout.temporal * layout.patch * layout.patch});
    CHECK(result.grid == ImageGrid{.rows = one.rows, .columns = one.columns});
    CHECK(levels_sum(result.bytes) == one.sum);
  }
}

TEST_CASE("tiles and the thumbnail equal those of transformers", "[media][layout]") {
  for (const auto& one : energon::testing::kTiles) {
    INFO(one.width << " x " << one.height);
    const Result result = of_noise(one.width, one.height,
                                   options_of(TileLayout{.width = one.tile,
                                                         .height = one.tile,
                                                         .min_tiles = one.min_tiles,
                                                         .max_tiles = one.max_tiles}));
    CHECK(result.shape == Shape{one.tiles, 3, one.tile, one.tile});
    CHECK(levels_sum(result.bytes) == one.sum);
  }
  const TileLayout without = {.width = 16, .height = 16, .thumbnail = false};
  const Result grid = of_noise(60, 20, options_of(without));
  CHECK(grid.shape == Shape{grid.grid.rows * grid.grid.columns, 3, 16, 16});
}

TEST_CASE("layouts follow the steps and the numeric format", "[media][layout]") {
  const PatchLayout patches = {.patch = 4, .min_pixels = 64, .max_pixels = 1024};
  const std::vector<energon::ImageStep> crop = {energon::CenterCrop{.width = 32, .height = 32}};
  ImageTransformOptions normal = options_of(patches, DType::kFloat32);
  normal.format.mean = energon::kClipMean;
  normal.format.stddev = energon::kClipStddev;
  const Result levels = of_noise(50, 40, options_of(patches), crop);
  const Result values = of_noise(50, 40, normal, crop);
  CHECK(levels.shape == Shape{64, 96});
  CHECK(values.shape == levels.shape);
  const auto floats = energon::testing::numbers_in<float>(values.bytes);
  double most = 0;
  for (std::size_t i = 0; i < floats.size(); ++i) {
    const std::size_t channel = i % 96 / 32;
    const double level = std::to_integer<int>(levels.bytes[i]) / 255.0;
    most = std::max(most, std::abs(floats[i] - (level - normal.format.mean[channel]) /
                                                   normal.format.stddev[channel]));
  }
  CHECK(most < 2e-6);
  // A part of the image in its place: the thumbnail needs the same pixels as the tiles.
  const TileLayout tiles = {.width = 16, .height = 16, .min_tiles = 2, .max_tiles = 2};
  const Result tiled = of_noise(
      60, 20, options_of(tiles),
      {energon::CenterCrop{.width = 32, .height = 16}, energon::RandomHorizontalFlip{.p = 1}});
  const Result plain = of_noise(
      60, 20, options_of(energon::WholeLayout{}),
      {energon::CenterCrop{.width = 32, .height = 16}, energon::RandomHorizontalFlip{.p = 1},
       energon::ResizeTo{.width = 16, .height = 16}});
  CHECK(tiled.shape == Shape{3, 3, 16, 16});
  CHECK(Pixels(tiled.bytes.end() - std::ptrdiff_t{3} * 16 * 16, tiled.bytes.end()) == plain.bytes);
}

TEST_CASE("invalid layouts are refused", "[media][layout]") {
  CHECK(refusal(options_of(PatchLayout{.patch = 0})).find("each must be from 1 to 4096") !=
        std::string::npos);
  CHECK(refusal(options_of(PatchLayout{.min_pixels = 0})).find("min_pixels of 0") !=
        std::string::npos);
  CHECK(refusal(options_of(TileLayout{.min_tiles = 3, .max_tiles = 2})).find("3 to 2 tiles") !=
        std::string::npos);
  ImageTransformOptions last = options_of(TileLayout{});
  last.format.channels_first = false;
  CHECK(refusal(last).find("have channels first") != std::string::npos);
}

TEST_CASE("the value of patches contains their grid", "[media][layout]") {
  const std::string file = energon::testing::image_file("420.jpg");  // 45 x 37 pixels
  const PatchLayout layout = {.patch = 4, .min_pixels = 64, .max_pixels = 4096};
  ImageTransform transform({}, options_of(layout));
  CallRng rng(1);
  const energon::Value value = energon::decode_transformed_value(energon::as_bytes(file), transform,
                                                                 rng, energon::heap_memory());
  const auto& fields = std::get<energon::Mapping>(value.base());
  REQUIRE(fields.size() == 2);
  CHECK(fields[0].first == "pixel_values");
  CHECK(std::get<energon::Tensor>(fields[0].second.base()).shape == Shape{120, 96});
  CHECK(fields[1].first == "image_grid_thw");
  const auto& grid = std::get<energon::Tensor>(fields[1].second.base());
  CHECK(grid.shape == Shape{1, 3});
  CHECK(energon::testing::numbers_in<std::int64_t>(grid.data.view) == Shape{1, 10, 12});
}
