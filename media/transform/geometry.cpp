#include "media/transform/geometry.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/warp.h"

namespace energon {

// --- Borders and the middle ---

namespace {

// As torchvision: int(round(difference / 2)) for crops, difference // 2 for the padding before.
std::int64_t middle(std::int64_t whole, std::int64_t part) {
  const std::int64_t left = whole - part;
  if (left < 0) {
    return -((-left) / 2);
  }
  // Python rounds a half to the even neighbor.
  return left % 4 == 3 ? left / 2 + 1 : left / 2;
}

}  // namespace

void validate(const Padding& padding) {
  for (const std::int64_t side : {padding.left, padding.top, padding.right, padding.bottom}) {
    if (side < 0 || side > kMaxImageSide) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a border of {} pixels: must be 0 to {}", side, kMaxImageSide));
    }
  }
}

void pad(const ImageView& from, const Padding& padding, const FillColor& fill,
         std::span<std::byte> to) {
  check_image(from);
  validate(padding);
  const AffineMatrix shift =
      translation(-static_cast<double>(padding.left), -static_cast<double>(padding.top));
  warp_affine(from, shift, from.width + padding.left + padding.right,
              from.height + padding.top + padding.bottom,
              {.filter = WarpFilter::kNearest, .fill = fill}, to);
}

Padding square_padding(std::int64_t width, std::int64_t height) {
  const std::int64_t side = std::max(width, height);
  Padding padding;
  padding.left = (side - width) / 2;
  padding.right = side - width - padding.left;
  padding.top = (side - height) / 2;
  padding.bottom = side - height - padding.top;
  return padding;
}

PixelBox center_box(std::int64_t image_width, std::int64_t image_height, std::int64_t width,
                    std::int64_t height) {
  check_image_size("the image", image_width, image_height);
  check_image_size("the crop", width, height);
  return {.x = middle(image_width, width),
          .y = middle(image_height, height),
          .width = width,
          .height = height};
}

// --- Random boxes, flips and angles ---

namespace {

constexpr int kTries = 10;

void check_positive(const char* what, RandomRange range) {
  if (!(range.low > 0)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} of {} to {}: both must be above 0", what, range.low, range.high));
  }
}

// As Python's round(): a half to the even neighbor.
std::int64_t rounded_side(double side) { return static_cast<std::int64_t>(std::nearbyint(side)); }

// The largest box in the middle whose ratio is allowed.
PixelBox middle_box(std::int64_t width, std::int64_t height, RandomRange ratio) {
  const double whole = static_cast<double>(width) / static_cast<double>(height);
  PixelBox box = {.width = width, .height = height};
  if (whole < ratio.low) {
    box.height = rounded_side(static_cast<double>(width) / ratio.low);
  } else if (whole > ratio.high) {
    box.width = rounded_side(static_cast<double>(height) * ratio.high);
  }
  box.width = std::max<std::int64_t>(box.width, 1);
  box.height = std::max<std::int64_t>(box.height, 1);
  box.x = (width - box.width) / 2;
  box.y = (height - box.height) / 2;
  return box;
}

}  // namespace

double draw_between(CallRng& rng, RandomRange range) {
  if (!std::isfinite(range.low) || !std::isfinite(range.high) || range.low > range.high) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a range of {} to {}: expected two finite numbers, the lower one first",
                            range.low, range.high));
  }
  return range.low + (range.high - range.low) * rng.uniform();
}

PixelBox random_resized_crop_box(CallRng& rng, std::int64_t width, std::int64_t height,
                                 RandomRange scale, RandomRange ratio) {
  check_image_size("the image", width, height);
  check_positive("a scale", scale);
  check_positive("a ratio", ratio);
  const RandomRange log_ratio = {std::log(ratio.low), std::log(ratio.high)};
  const double area = static_cast<double>(width) * static_cast<double>(height);
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const double target = area * draw_between(rng, scale);
    const double aspect = std::exp(draw_between(rng, log_ratio));
    const double box_width = std::nearbyint(std::sqrt(target * aspect));
    const double box_height = std::nearbyint(std::sqrt(target / aspect));
    if (box_width < 1 || box_height < 1 || box_width > static_cast<double>(width) ||
        box_height > static_cast<double>(height)) {
      continue;
    }
    return random_crop_box(rng, width, height, static_cast<std::int64_t>(box_width),
                           static_cast<std::int64_t>(box_height));
  }
  return middle_box(width, height, ratio);
}

PixelBox random_crop_box(CallRng& rng, std::int64_t width, std::int64_t height,
                         std::int64_t crop_width, std::int64_t crop_height) {
  check_image_size("the image", width, height);
  check_image_size("the crop", crop_width, crop_height);
  if (crop_width > width || crop_height > height) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a crop of {} x {} pixels from an image of {} x {}: pad or resize the "
                            "image first",
                            crop_width, crop_height, width, height));
  }
  const std::int64_t y = rng.integer(height - crop_height + 1);
  const std::int64_t x = rng.integer(width - crop_width + 1);
  return {.x = x, .y = y, .width = crop_width, .height = crop_height};
}

bool random_flip(CallRng& rng, double p) { return rng.chance(p); }

double random_rotation_angle(CallRng& rng, RandomRange degrees) {
  return draw_between(rng, degrees);
}

}  // namespace energon
