#include "media/transform/color_jitter.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/color.h"
#include "media/transform/random_geometry.h"

namespace energon {
namespace {

double draw_factor(CallRng& rng, double reach) {
  return draw_between(rng, {std::max(0.0, 1 - reach), 1 + reach});
}

void apply_change(ColorChange change, const JitterDraw& drawn, std::span<std::byte> pixels,
                  int channels) {
  switch (change) {
    case ColorChange::kBrightness:
      return drawn.brightness == 1 ? void() : adjust_brightness(pixels, drawn.brightness);
    case ColorChange::kContrast:
      return drawn.contrast == 1 ? void() : adjust_contrast(pixels, channels, drawn.contrast);
    case ColorChange::kSaturation:
      return drawn.saturation == 1 ? void() : adjust_saturation(pixels, channels, drawn.saturation);
    case ColorChange::kHue:
      return drawn.hue == 0 ? void() : adjust_hue(pixels, channels, drawn.hue);
  }
}

}  // namespace

void validate(const ColorJitter& jitter) {
  const auto check = [](const char* what, double reach, double most) {
    if (!(reach >= 0 && reach <= most) || !std::isfinite(reach)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("ColorJitter::{} of {}: must be 0 to {}", what, reach, most));
    }
  };
  check("brightness", jitter.brightness, 1e6);
  check("contrast", jitter.contrast, 1e6);
  check("saturation", jitter.saturation, 1e6);
  check("hue", jitter.hue, 0.5);
}

JitterDraw draw_jitter(CallRng& rng, const ColorJitter& jitter) {
  validate(jitter);
  JitterDraw drawn;
  for (std::size_t i = 0; i + 1 < drawn.order.size(); ++i) {
    const auto left = static_cast<std::int64_t>(drawn.order.size() - i);
    std::swap(drawn.order[i], drawn.order[i + static_cast<std::size_t>(rng.integer(left))]);
  }
  drawn.brightness = draw_factor(rng, jitter.brightness);
  drawn.contrast = draw_factor(rng, jitter.contrast);
  drawn.saturation = draw_factor(rng, jitter.saturation);
  drawn.hue = draw_between(rng, {-jitter.hue, jitter.hue});
  return drawn;
}

void apply_jitter(const JitterDraw& drawn, std::span<std::byte> pixels, int channels) {
  for (const ColorChange change : drawn.order) {
    apply_change(change, drawn, pixels, channels);
  }
}

}  // namespace energon
