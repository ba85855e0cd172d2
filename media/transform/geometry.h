// Borders, boxes of crops in the middle or at random, and random flips and angles. Internal to
// media/transform.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "energon/stage/call_context.h"
#include "media/transform/image_transform.h"
#include "media/transform/pixels.h"

namespace energon {

// --- Borders of one color, and the place of a crop in the middle ---

/// Throws Error (kInvalidArgument) unless each side is in [0, kMaxImageSide].
void validate(const Padding& padding);

/// Writes `from` with a border of `fill` to `to`: (height + top + bottom, width + left + right,
/// channels). Throws Error (kInvalidArgument). Thread-safe.
void pad(const ImageView& from, const Padding& padding, const FillColor& fill,
         std::span<std::byte> to);

/// The padding that makes an image square: half of it on each side, with an odd pixel on the right
/// or at the bottom.
Padding square_padding(std::int64_t width, std::int64_t height);

/// The box of width * height pixels in the middle of an image, at the place of torchvision's
/// center_crop. Extends beyond a smaller image. Throws Error (kInvalidArgument).
PixelBox center_box(std::int64_t image_width, std::int64_t image_height, std::int64_t width,
                    std::int64_t height);

// --- Random boxes, flips and angles, with torchvision's distributions ---
//
// What each function draws, and in which order, is part of its contract, so that a restored sample
// is the same. torchvision draws different numbers for the same seed.

/// Draws one uniform(), even if the bounds are equal. Throws Error (kInvalidArgument) unless both
/// are finite and low <= high.
double draw_between(CallRng& rng, RandomRange range);

/// The box of a RandomResizedCrop (image_transform.h). Throws Error (kInvalidArgument).
PixelBox random_resized_crop_box(CallRng& rng, std::int64_t width, std::int64_t height,
                                 RandomRange scale = {0.08, 1.0},
                                 RandomRange ratio = {3.0 / 4, 4.0 / 3});

/// A box of crop_width * crop_height pixels. Draws one integer() for the top and one for the left,
/// even if there is only one place. Throws Error (kInvalidArgument) if the image is smaller than
/// the box.
PixelBox random_crop_box(CallRng& rng, std::int64_t width, std::int64_t height,
                         std::int64_t crop_width, std::int64_t crop_height);

/// True with probability `p`. Draws one uniform().
bool random_flip(CallRng& rng, double p = 0.5);

/// An angle in degrees, counter-clockwise. Draws one uniform().
double random_rotation_angle(CallRng& rng, RandomRange degrees);

}  // namespace energon
