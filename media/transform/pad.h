// Borders of one colour, and the place of a crop in the middle.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "media/transform/pixels.h"

namespace energon {

/// Pixels around an image, each at least 0.
struct Padding {
  std::int64_t left = 0;
  std::int64_t top = 0;
  std::int64_t right = 0;
  std::int64_t bottom = 0;
};

/// Throws Error (kInvalidArgument) unless each side is 0 to kMaxImageSide.
void validate(const Padding& padding);

/// Writes `from` with a border of `fill` to `to`: (height + top + bottom, width + left + right,
/// channels). Throws Error (kInvalidArgument). Thread-safe.
void pad(const ImageView& from, const Padding& padding, const FillColor& fill,
         std::span<std::byte> to);

/// The padding that makes an image square, half of it on each side, the odd pixel to the right or
/// at the bottom.
Padding square_padding(std::int64_t width, std::int64_t height);

/// The box of width * height pixels in the middle of an image, placed as by torchvision's
/// center_crop. It reaches beyond an image that is smaller. Throws Error (kInvalidArgument).
PixelBox center_box(std::int64_t image_width, std::int64_t image_height, std::int64_t width,
                    std::int64_t height);

}  // namespace energon
