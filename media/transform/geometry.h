// Borders and boxes of crops, in the middle or at random, and random flips and angles.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "energon/stage/call_context.h"
#include "media/transform/image_transform.h"
#include "media/transform/pixels.h"

namespace energon {

// --- Borders of one color, and the place of a crop in the middle ---

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

// --- Random boxes, flips and angles, with the distributions of torchvision ---
//
// Each function says what it draws, in which order, so that a restored sample is the same. The
// words that torchvision draws for the same seed are others.

/// Draws one uniform(), also if the bounds are equal. Throws Error (kInvalidArgument) unless both
/// are finite and low <= high.
double draw_between(CallRng& rng, RandomRange range);

/// A part of the image with `scale` of its area (0 < scale) and `ratio` of width to height (0 <
/// ratio), as RandomResizedCrop. Draws up to 10 times: one uniform() for the area, one for the
/// logarithm of the ratio; for the first box that fits, then one integer() for the top and one for
/// the left, and no more. If none fits, takes the largest box of an allowed ratio in the middle.
/// Throws Error (kInvalidArgument).
PixelBox random_resized_crop_box(CallRng& rng, std::int64_t width, std::int64_t height,
                                 RandomRange scale = {0.08, 1.0},
                                 RandomRange ratio = {3.0 / 4, 4.0 / 3});

/// A box of crop_width * crop_height pixels. Draws one integer() for the top and one for the left,
/// also where there is one place only. Throws Error (kInvalidArgument) if the image is smaller: pad
/// or resize it first.
PixelBox random_crop_box(CallRng& rng, std::int64_t width, std::int64_t height,
                         std::int64_t crop_width, std::int64_t crop_height);

/// True with probability `p`. Draws one uniform().
bool random_flip(CallRng& rng, double p = 0.5);

/// Degrees, counter-clockwise. Draws one uniform().
double random_rotation_angle(CallRng& rng, RandomRange degrees);

}  // namespace energon
