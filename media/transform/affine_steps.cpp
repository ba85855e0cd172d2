#include "media/transform/affine_steps.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::int64_t kFarthestCrop = 4 * kMaxImageSide;

// The box that the map makes of a box at the origin, whole pixels outwards.
PixelBox mapped_box(const AffineMatrix& map, std::int64_t width, std::int64_t height,
                    double margin_x, double margin_y) {
  const auto w = static_cast<double>(width);
  const auto h = static_cast<double>(height);
  const std::array<double, 2> from = apply(map, 0, 0);
  std::array<double, 2> low = from;
  std::array<double, 2> high = from;
  for (const auto& corner : {apply(map, w, 0), apply(map, 0, h), apply(map, w, h)}) {
    for (std::size_t i = 0; i < 2; ++i) {
      low[i] = std::min(low[i], corner[i]);
      high[i] = std::max(high[i], corner[i]);
    }
  }
  const auto whole = [](double x) {
    return static_cast<std::int64_t>(std::clamp(x, -0x1p40, 0x1p40));
  };
  const std::int64_t x = whole(std::floor(low[0] - margin_x));
  const std::int64_t y = whole(std::floor(low[1] - margin_y));
  return {.x = x,
          .y = y,
          .width = whole(std::ceil(high[0] + margin_x)) - x,
          .height = whole(std::ceil(high[1] + margin_y)) - y};
}

}  // namespace

AffineSteps::AffineSteps(std::int64_t width, std::int64_t height)
    : width_(width), height_(height), clip_{.width = width, .height = height} {
  check_image_size("the source", width, height);
}

void AffineSteps::resize(std::int64_t width, std::int64_t height) {
  check_image_size("the resized image", width, height);
  const AffineMatrix back = scaling(static_cast<double>(width_) / static_cast<double>(width),
                                    static_cast<double>(height_) / static_cast<double>(height));
  to_source_ = compose(back, to_source_);
  width_ = width;
  height_ = height;
}

void AffineSteps::crop(const PixelBox& box) {
  check_image_size("the crop", box.width, box.height);
  if (box.x < -kFarthestCrop || box.x > kFarthestCrop || box.y < -kFarthestCrop ||
      box.y > kFarthestCrop) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a crop at ({}, {}), must be within {} pixels", box.x, box.y, kFarthestCrop));
  }
  to_source_ =
      compose(translation(static_cast<double>(box.x), static_cast<double>(box.y)), to_source_);
  width_ = box.width;
  height_ = box.height;
  if (is_exact(to_source_)) {
    clip_ = intersection(clip_, mapped_box(to_source_, width_, height_, 0, 0));
  }
}

void AffineSteps::flip_horizontal() {
  to_source_ = compose({.a = -1, .c = static_cast<double>(width_)}, to_source_);
}

void AffineSteps::flip_vertical() {
  to_source_ = compose({.e = -1, .f = static_cast<double>(height_)}, to_source_);
}

void AffineSteps::rotate(double degrees) {
  to_source_ =
      compose(rotation(degrees, static_cast<double>(width_) / 2, static_cast<double>(height_) / 2),
              to_source_);
}

std::array<double, 2> AffineSteps::shrink() const {
  return {std::hypot(to_source_.a, to_source_.b), std::hypot(to_source_.d, to_source_.e)};
}

PixelBox AffineSteps::needed_box(ResizeFilter filter) const {
  const double support = filter == ResizeFilter::kBicubic ? 2 : 1;
  const auto [across, down] = shrink();
  const auto margin = [&](double shrunk) { return 2 * support * std::max(shrunk, 1.0) + 1; };
  return intersection(clip_, mapped_box(to_source_, width_, height_, margin(across), margin(down)));
}

}  // namespace energon
