// Random boxes, flips and angles, with the distributions of torchvision.
//
// Each function says what it draws, in which order, so that a restored sample is the same. The
// words that torchvision draws for the same seed are others.

#pragma once

#include <cstdint>

#include "energon/stage/call_context.h"
#include "media/transform/pixels.h"

namespace energon {

/// Lower and upper bound; they may be equal.
struct RandomRange {
  double low = 0;
  double high = 0;
};

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
