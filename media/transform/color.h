// Changes of color, with the definitions of torchvision's functions on tensors.
//
// Pixels are contiguous interleaved uint8: 1 channel (gray) or 3 (red, green, blue). Results are
// within 1 level of torchvision's and the same on every processor. All functions work in place and
// are thread-safe. They throw Error (kInvalidArgument) if the pixels are not a whole number of
// pixels of 1 or 3 channels, or a factor is not in its range.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "energon/stage/call_context.h"
#include "io/bytes.h"
#include "media/transform/image_transform.h"

namespace energon {

/// level * factor. `factor` >= 0: 0 is black, 1 changes nothing.
void adjust_brightness(std::span<std::byte> pixels, double factor);

/// mean + (level - mean) * factor; the mean is that of the gray levels. `factor` >= 0: 0 is gray, 1
/// changes nothing.
void adjust_contrast(std::span<std::byte> pixels, int channels, double factor);

/// gray + (level - gray) * factor, for each pixel. `factor` >= 0: 0 is black and white, 1 changes
/// nothing. Gray images stay as they are.
void adjust_saturation(std::span<std::byte> pixels, int channels, double factor);

/// Turns the hue by `turn` of the circle, -0.5 to 0.5. Gray images stay as they are.
void adjust_hue(std::span<std::byte> pixels, int channels, double turn);

/// 0.2989 R + 0.587 G + 0.114 B of red, green and blue, rounded down: one level per pixel. Throws
/// Error (kInvalidArgument) unless `rgb` is three times as large as `gray`.
void rgb_to_gray(ByteView rgb, std::span<std::byte> gray);

/// The same, with three equal channels.
void make_gray(std::span<std::byte> pixels, int channels);

// --- Random changes, as torchvision's ColorJitter ---

enum class ColorChange : std::uint8_t { kBrightness, kContrast, kSaturation, kHue };

/// What was drawn.
struct JitterDraw {
  std::array<ColorChange, 4> order = {ColorChange::kBrightness, ColorChange::kContrast,
                                      ColorChange::kSaturation, ColorChange::kHue};
  double brightness = 1;
  double contrast = 1;
  double saturation = 1;
  double hue = 0;
};

/// Throws Error (kInvalidArgument) if a range is not as ColorJitter says.
void validate(const ColorJitter& jitter);

/// Draws three integer() for the order: of 4, 3 and 2 changes that are left. Then one uniform()
/// for each factor: brightness, contrast, saturation, hue; those of 0 too. Throws Error
/// (kInvalidArgument).
JitterDraw draw_jitter(CallRng& rng, const ColorJitter& jitter);

/// Applies what was drawn to contiguous uint8 pixels of 1 or 3 channels, in place. Changes that
/// change nothing cost nothing. Throws Error (kInvalidArgument).
void apply_jitter(const JitterDraw& drawn, std::span<std::byte> pixels, int channels);

}  // namespace energon
