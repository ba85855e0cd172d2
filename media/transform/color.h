// Color adjustments, as defined by torchvision's functions on tensors. Internal to media/transform.
//
// Pixels are contiguous interleaved uint8: 1 channel (gray) or 3 (red, green, blue). Results are
// within 1 level of torchvision's and the same on every processor. All functions work in place and
// are thread-safe. They throw Error (kInvalidArgument) if the bytes are not a whole number of
// pixels of 1 or 3 channels, or a factor is out of range.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "media/transform/image_transform.h"

namespace energon {

/// level * factor. `factor` >= 0; 0 is black, 1 has no effect.
void adjust_brightness(std::span<std::byte> pixels, double factor);

/// mean + (level - mean) * factor, with the mean of the gray levels. `factor` >= 0; 0 is gray, 1
/// has no effect.
void adjust_contrast(std::span<std::byte> pixels, int channels, double factor);

/// gray + (level - gray) * factor, for each pixel. `factor` >= 0; 0 is black and white, 1 has no
/// effect. Does not change gray images.
void adjust_saturation(std::span<std::byte> pixels, int channels, double factor);

/// Rotates the hue by `turn`, a fraction of the circle, -0.5 to 0.5. Does not change gray images.
void adjust_hue(std::span<std::byte> pixels, int channels, double turn);

/// 0.2989 R + 0.587 G + 0.114 B of red, green and blue, rounded down: one level per pixel. Throws
/// Error (kInvalidArgument) unless `rgb` is three times as large as `gray`.
void rgb_to_gray(ByteView rgb, std::span<std::byte> gray);

/// As rgb_to_gray(), in place, with three equal channels.
void make_gray(std::span<std::byte> pixels, int channels);

// --- Random changes, as torchvision's ColorJitter ---

enum class ColorChange : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };

/// The random numbers of a ColorJitter.
struct JitterDraw {
  std::array<ColorChange, 4> order = {ColorChange::kBrightness, ColorChange::kContrast,
                                      ColorChange::kSaturation, ColorChange::kHue};
  double brightness = 1;
  double contrast = 1;
  double saturation = 1;
  double hue = 0;
};

/// Throws Error (kInvalidArgument) if a value is outside the range documented at ColorJitter.
void validate(const ColorJitter& jitter);

/// Draws three integer() for the order: of 4, 3 and 2 remaining changes. Then draws one uniform()
/// for each factor, even if it is 0: brightness, contrast, saturation, hue. Throws Error
/// (kInvalidArgument).
JitterDraw draw_jitter(CallRng& rng, const ColorJitter& jitter);

/// Applies the changes to contiguous uint8 pixels of 1 or 3 channels, in place. Skips changes
/// without effect. Throws Error (kInvalidArgument).
void apply_jitter(const JitterDraw& drawn, std::span<std::byte> pixels, int channels);

}  // namespace energon
