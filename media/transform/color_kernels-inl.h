// Color arithmetic on interleaved RGB, for one instruction set. Included by kernels.cpp only.

// clang-format off
#if defined(ENERGON_COLOR_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ENERGON_COLOR_KERNELS_INL
#undef ENERGON_COLOR_KERNELS_INL
#else
#define ENERGON_COLOR_KERNELS_INL
#endif
// clang-format on

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace energon::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

using ColorTag = hn::ScalableTag<std::int32_t>;
using ColorBytes = hn::Rebind<std::uint8_t, ColorTag>;
using Levels = hn::Vec<ColorTag>;

HWY_INLINE Levels gray_levels(Levels r, Levels g, Levels b) {
  const ColorTag d;
  const auto sum = hn::Add(hn::Mul(r, hn::Set(d, 19589)), hn::Mul(g, hn::Set(d, 38470)));
  return hn::ShiftRight<16>(hn::Add(sum, hn::Mul(b, hn::Set(d, 7471))));
}

/// Clamps to 0 to 255. Highway's own saturation turns 32768 into 0.
HWY_INLINE hn::Vec<ColorBytes> clamped_levels(Levels levels) {
  const ColorTag d;
  return hn::DemoteTo(ColorBytes(), hn::Min(levels, hn::Set(d, 255)));
}

/// Calls change(r, g, b) for vectors of pixels, in place; for the last pixels, in a copy.
template <class Change>
HWY_INLINE void for_each_vector(std::uint8_t* rgb, std::int64_t count, const Change& change) {
  const ColorTag d;
  const ColorBytes d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const auto vector = [&](std::uint8_t* place) {
    auto r8 = hn::Zero(d8), g8 = r8, b8 = r8;
    hn::LoadInterleaved3(d8, place, r8, g8, b8);
    auto r = hn::PromoteTo(d, r8), g = hn::PromoteTo(d, g8), b = hn::PromoteTo(d, b8);
    change(r, g, b);
    hn::StoreInterleaved3(clamped_levels(r), clamped_levels(g), clamped_levels(b), d8, place);
  };
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    vector(rgb + i * 3);
  }
  if (i < count) {
    alignas(64) std::array<std::uint8_t, hn::MaxLanes(ColorTag())* 3> rest = {};
    std::copy_n(rgb + i * 3, (count - i) * 3, rest.data());
    vector(rest.data());
    std::copy_n(rest.data(), (count - i) * 3, rgb + i * 3);
  }
}

HWY_MAYBE_UNUSED inline void gray_of_rgb_simd(const std::uint8_t* rgb, std::int64_t count,
                                              std::uint8_t* gray) {
  const ColorTag d;
  const ColorBytes d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    auto r = hn::Zero(d8), g = r, b = r;
    hn::LoadInterleaved3(d8, rgb + i * 3, r, g, b);
    const auto level = gray_levels(hn::PromoteTo(d, r), hn::PromoteTo(d, g), hn::PromoteTo(d, b));
    hn::StoreU(hn::DemoteTo(d8, level), d8, gray + i);
  }
  for (; i < count; ++i) {
    const std::uint8_t* pixel = rgb + i * 3;
    gray[i] =
        static_cast<std::uint8_t>((pixel[0] * 19589 + pixel[1] * 38470 + pixel[2] * 7471) >> 16);
  }
}

HWY_MAYBE_UNUSED inline void scale_levels_simd(std::uint8_t* levels, std::int64_t count,
                                               std::int32_t factor, std::int32_t offset) {
  const ColorTag d;
  const ColorBytes d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    const auto level = hn::PromoteTo(d, hn::LoadU(d8, levels + i));
    const auto scaled = hn::Add(hn::Mul(level, hn::Set(d, factor)), hn::Set(d, offset));
    hn::StoreU(clamped_levels(hn::ShiftRight<12>(scaled)), d8, levels + i);
  }
  for (; i < count; ++i) {
    levels[i] = static_cast<std::uint8_t>(std::clamp((levels[i] * factor + offset) >> 12, 0, 255));
  }
}

HWY_MAYBE_UNUSED inline void saturate_rgb_simd(std::uint8_t* rgb, std::int64_t count,
                                               std::int32_t factor) {
  const ColorTag d;
  const auto scale = hn::Set(d, factor);
  for_each_vector(rgb, count, [&](Levels& r, Levels& g, Levels& b) {
    const auto gray = gray_levels(r, g, b);
    const auto blend = [&](Levels level) {
      return hn::Add(gray, hn::ShiftRight<14>(hn::Mul(hn::Sub(level, gray), scale)));
    };
    r = blend(r);
    g = blend(g);
    b = blend(b);
  });
}

/// With D = 2^16 * (largest level - smallest level), the hue of a pixel is a number in [0, 6 D),
/// and each channel is a trapezoid function of the hue.
HWY_MAYBE_UNUSED inline void turn_hue_rgb_simd(std::uint8_t* rgb, std::int64_t count,
                                               std::int32_t turn) {
  const ColorTag d;
  const auto zero = hn::Zero(d);
  const auto by = hn::Set(d, turn);
  for_each_vector(rgb, count, [&](Levels& r, Levels& g, Levels& b) {
    const auto most = hn::Max(r, hn::Max(g, b));
    const auto least = hn::Min(r, hn::Min(g, b));
    const auto range = hn::Sub(most, least);
    // The hue times `range`. r, g and b are the largest in sectors 0, 2 and 4.
    const auto range2 = hn::Add(range, range);
    const auto of_r = hn::Sub(g, b);
    const auto of_g = hn::Add(hn::Sub(b, r), range2);
    const auto of_b = hn::Add(hn::Sub(r, g), hn::Add(range2, range2));
    const auto hue =
        hn::IfThenElse(hn::Eq(most, r), of_r, hn::IfThenElse(hn::Eq(most, g), of_g, of_b));
    const auto one = hn::ShiftLeft<16>(range);
    const auto two = hn::Add(one, one);
    const auto three = hn::Add(two, one);
    const auto six = hn::Add(three, three);
    auto turned = hn::Add(hn::ShiftLeft<16>(hue), hn::Mul(range, by));
    turned = hn::IfThenElse(hn::Lt(turned, zero), hn::Add(turned, six), turned);
    turned = hn::IfThenElse(hn::Lt(turned, six), turned, hn::Sub(turned, six));
    const auto level = [&](Levels trapezoid) {
      const auto part = hn::Min(hn::Max(trapezoid, zero), one);
      return hn::Add(least, hn::ShiftRight<16>(hn::Add(part, hn::Set(d, 1 << 15))));
    };
    r = level(hn::Sub(hn::Abs(hn::Sub(turned, three)), one));
    g = level(hn::Sub(two, hn::Abs(hn::Sub(turned, two))));
    b = level(hn::Sub(two, hn::Abs(hn::Sub(turned, hn::Add(two, two)))));
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace energon::kernels
HWY_AFTER_NAMESPACE();
#endif
