// Random changes of colour, as torchvision's ColorJitter.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "energon/stage/call_context.h"

namespace energon {

/// How far colours may change, each at least 0. The factors of brightness, contrast and saturation
/// are in [max(0, 1 - x), 1 + x], the turn of the hue is in [-x, x] with x <= 0.5. 0: no change.
struct ColorJitter {
  double brightness = 0;
  double contrast = 0;
  double saturation = 0;
  double hue = 0;
};

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
