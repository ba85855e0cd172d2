#include "media/transform/color.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "media/transform/geometry.h"
#include "media/transform/kernels.h"

namespace energon {

// --- Changes ---

namespace {

std::uint8_t* color_levels(std::span<std::byte> pixels) {
  return reinterpret_cast<std::uint8_t*>(pixels.data());
}

void check_color_pixels(ByteView pixels, int channels) {
  if ((channels != 1 && channels != 3) || pixels.size() % static_cast<std::size_t>(channels) != 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} bytes with {} channels: expected whole uint8 pixels of 1 or 3 "
                            "channels",
                            pixels.size(), channels));
  }
}

void check_factor(const char* what, double factor) {
  if (!(factor >= 0) || !std::isfinite(factor)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a factor of {} for the {}: must be 0 or more", factor, what));
  }
}

// level * factor + offset, rounded down and clamped, with a fraction of 12 bits. Factors above 256
// are equivalent to 256: only black, white and levels next to the mean remain.
void scale_levels(std::span<std::byte> pixels, double factor, double mean) {
  const double bounded = std::min(factor, 256.0);
  const auto fixed = static_cast<std::int32_t>(std::lround(bounded * 4096));
  const auto offset = static_cast<std::int32_t>(std::lround(mean * (1 - bounded) * 4096));
  kernels::scale_levels(color_levels(pixels), static_cast<std::int64_t>(pixels.size()), fixed,
                        offset);
}

constexpr std::size_t kGrayBlock = 1024;  // pixels

// Calls use(gray levels) for consecutive blocks of an RGB image.
template <class Use>
void for_gray_blocks(std::span<const std::uint8_t> rgb, const Use& use) {
  std::array<std::uint8_t, kGrayBlock> gray;
  while (!rgb.empty()) {
    const std::size_t count = std::min(rgb.size() / 3, kGrayBlock);
    kernels::gray_of_rgb(rgb.data(), static_cast<std::int64_t>(count), gray.data());
    use(std::span(gray).first(count));
    rgb = rgb.subspan(count * 3);
  }
}

std::span<const std::uint8_t> as_levels(ByteView pixels) {
  return {reinterpret_cast<const std::uint8_t*>(pixels.data()), pixels.size()};
}

double mean_gray(ByteView pixels, int channels) {
  const auto levels = as_levels(pixels);
  std::uint64_t sum = 0;
  const auto add = [&](std::span<const std::uint8_t> gray) {
    for (const std::uint8_t level : gray) {
      sum += level;
    }
  };
  if (channels == 1) {
    add(levels);
  } else {
    for_gray_blocks(levels, [&](std::span<const std::uint8_t> gray) { add(gray); });
  }
  const std::size_t count = levels.size() / static_cast<std::size_t>(channels);
  return count == 0 ? 0 : static_cast<double>(sum) / static_cast<double>(count);
}

}  // namespace

void adjust_brightness(std::span<std::byte> pixels, double factor) {
  check_factor("brightness", factor);
  scale_levels(pixels, factor, 0);
}

void adjust_contrast(std::span<std::byte> pixels, int channels, double factor) {
  check_color_pixels(pixels, channels);
  check_factor("contrast", factor);
  scale_levels(pixels, factor, mean_gray(pixels, channels));
}

void adjust_saturation(std::span<std::byte> pixels, int channels, double factor) {
  check_color_pixels(pixels, channels);
  check_factor("saturation", factor);
  if (channels == 3) {
    // Above 256, every level that is not gray becomes 0 or 255.
    const auto fixed = static_cast<std::int32_t>(std::lround(std::min(factor, 256.0) * (1 << 14)));
    kernels::saturate_rgb(color_levels(pixels), static_cast<std::int64_t>(pixels.size() / 3),
                          fixed);
  }
}

void adjust_hue(std::span<std::byte> pixels, int channels, double turn) {
  check_color_pixels(pixels, channels);
  if (!(turn >= -0.5 && turn <= 0.5)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a hue rotation by {} of the circle: must be -0.5 to 0.5", turn));
  }
  if (channels == 3) {
    constexpr std::int32_t kCircle = 6 << 16;
    const auto fixed = static_cast<std::int32_t>(std::lround(turn * kCircle));
    kernels::turn_hue_rgb(color_levels(pixels), static_cast<std::int64_t>(pixels.size() / 3),
                          (fixed + kCircle) % kCircle);
  }
}

void rgb_to_gray(ByteView rgb, std::span<std::byte> gray) {
  check_color_pixels(rgb, 3);
  if (rgb.size() / 3 != gray.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} pixels need {} gray levels, but the memory for them has {}",
                            rgb.size() / 3, rgb.size() / 3, gray.size()));
  }
  kernels::gray_of_rgb(as_levels(rgb).data(), static_cast<std::int64_t>(gray.size()),
                       color_levels(gray));
}

void make_gray(std::span<std::byte> pixels, int channels) {
  check_color_pixels(pixels, channels);
  if (channels == 1) {
    return;
  }
  std::uint8_t* place = color_levels(pixels);
  for_gray_blocks(as_levels(pixels), [&](std::span<const std::uint8_t> gray) {
    for (const std::uint8_t level : gray) {
      std::fill_n(place, 3, level);
      place += 3;
    }
  });
}

// --- Random changes ---

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
