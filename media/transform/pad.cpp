#include "media/transform/pad.h"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/warp.h"

namespace energon {
namespace {

// torchvision: int(round(difference / 2)) for crops, and difference // 2 for the padding before.
std::int64_t middle(std::int64_t whole, std::int64_t part) {
  const std::int64_t left = whole - part;
  if (left < 0) {
    return -((-left) / 2);
  }
  // Python rounds a half to the even neighbour.
  return left % 4 == 3 ? left / 2 + 1 : left / 2;
}

}  // namespace

void validate(const Padding& padding) {
  for (const std::int64_t side : {padding.left, padding.top, padding.right, padding.bottom}) {
    if (side < 0 || side > kMaxImageSide) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a border of {} pixels, must be 0 to {}", side, kMaxImageSide));
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

}  // namespace energon
