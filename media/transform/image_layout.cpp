#include "media/transform/image_layout.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/image_transform.h"
#include "media/transform/pixels.h"

namespace energon {

namespace {

constexpr double kMostRatio = 200;

void check_at_least_one(const char* what, std::int64_t number) {
  if (number < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} of {}: must be at least 1", what, number));
  }
}

// Rounded with `round` to a multiple of `factor`.
template <class Round>
std::int64_t to_multiple(double side, std::int64_t factor, Round round) {
  const double result = round(side / static_cast<double>(factor)) * static_cast<double>(factor);
  return static_cast<std::int64_t>(std::min(result, 2.0 * kMaxImageSide));
}

std::vector<ImageGrid> grids_by_tiles(const TileLayout& layout) {
  std::vector<ImageGrid> grids;
  for (std::int64_t columns = 1; columns <= layout.max_tiles; ++columns) {
    for (std::int64_t rows = 1; rows * columns <= layout.max_tiles; ++rows) {
      if (rows * columns >= layout.min_tiles) {
        grids.push_back({.rows = rows, .columns = columns});
      }
    }
  }
  std::ranges::stable_sort(grids, {},
                           [](const ImageGrid& grid) { return grid.rows * grid.columns; });
  return grids;
}

}  // namespace

ImageSize smart_resize(ImageSize image, std::int64_t factor, std::int64_t min_pixels,
                       std::int64_t max_pixels) {
  check_image_size("the image", image.width, image.height);
  check_image_size("the factor", factor, factor);
  check_at_least_one("min_pixels", min_pixels);
  check_at_least_one("max_pixels", max_pixels);
  const auto width = static_cast<double>(image.width);
  const auto height = static_cast<double>(image.height);
  if (const double ratio = std::max(width, height) / std::min(width, height); ratio > kMostRatio) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an image of {} x {} pixels: one side must be at most {} times the "
                            "other to be cut into patches",
                            image.width, image.height, kMostRatio));
  }
  // Halves become even, as in Python.
  const auto nearest = [](double x) { return std::nearbyint(x); };
  const auto up = [](double x) { return std::ceil(x); };
  const auto down = [](double x) { return std::floor(x); };
  ImageSize result = {.width = to_multiple(width, factor, nearest),
                      .height = to_multiple(height, factor, nearest)};
  // In the order of transformers' operations, which decides about rounding errors.
  if (result.width * result.height > max_pixels) {
    const double shrink = std::sqrt(width * height / static_cast<double>(max_pixels));
    result = {.width = std::max(factor, to_multiple(width / shrink, factor, down)),
              .height = std::max(factor, to_multiple(height / shrink, factor, down))};
  } else if (result.width * result.height < min_pixels) {
    const double grow = std::sqrt(static_cast<double>(min_pixels) / (width * height));
    result = {.width = to_multiple(width * grow, factor, up),
              .height = to_multiple(height * grow, factor, up)};
  }
  return result;
}

ImageGrid tile_grid(ImageSize image, const TileLayout& layout) {
  check_image_size("the image", image.width, image.height);
  check_image_size("a tile", layout.width, layout.height);
  if (layout.min_tiles < 1 || layout.max_tiles < layout.min_tiles || layout.max_tiles > kMaxTiles) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} to {} tiles: must be from 1 to {}, the least first",
                            layout.min_tiles, layout.max_tiles, kMaxTiles));
  }
  const auto width = static_cast<double>(image.width);
  const auto height = static_cast<double>(image.height);
  const double half_tile =
      0.5 * static_cast<double>(layout.height) * static_cast<double>(layout.width);
  ImageGrid best = {};
  double best_difference = std::numeric_limits<double>::infinity();
  for (const ImageGrid& grid : grids_by_tiles(layout)) {
    const auto columns = static_cast<double>(grid.columns);
    const auto rows = static_cast<double>(grid.rows);
    const double difference = std::abs(width / height - columns / rows);
    const bool is_covered = width * height > half_tile * columns * rows;
    if (difference < best_difference || (difference == best_difference && is_covered)) {
      best = grid;
      best_difference = difference;
    }
  }
  return best;
}

}  // namespace energon
