// Power spectra, sums by mel filters, and filters of samples, for one instruction set. Included by
// kernels.cpp only.

// clang-format off
#if defined(ENERGON_MEL_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ENERGON_MEL_KERNELS_INL
#undef ENERGON_MEL_KERNELS_INL
#else
#define ENERGON_MEL_KERNELS_INL
#endif
// clang-format on

#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <hwy/highway.h>

#include "media/transform/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace energon::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// A lane is a frame, so that all frames of a vector take the same steps.
using FrameTag = hn::CappedTag<float, MelPlan::kMostLanes>;
using Frames = hn::Vec<FrameTag>;

struct ComplexFrames {
  Frames re;
  Frames im;
};

HWY_INLINE ComplexFrames load_complex(const float* from, std::int64_t i) {
  const FrameTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  return {hn::LoadU(d, from + 2 * i * lanes), hn::LoadU(d, from + (2 * i + 1) * lanes)};
}

HWY_INLINE void store_complex(ComplexFrames value, float* to, std::int64_t i) {
  const FrameTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::StoreU(value.re, d, to + 2 * i * lanes);
  hn::StoreU(value.im, d, to + (2 * i + 1) * lanes);
}

HWY_INLINE ComplexFrames plus(ComplexFrames a, ComplexFrames b) {
  return {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
}

HWY_INLINE ComplexFrames minus(ComplexFrames a, ComplexFrames b) {
  return {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
}

/// a * (w[0] + i w[1]).
HWY_INLINE ComplexFrames times(ComplexFrames a, const float* w) {
  const FrameTag d;
  const auto re = hn::Set(d, w[0]);
  const auto im = hn::Set(d, w[1]);
  return {hn::Sub(hn::Mul(a.re, re), hn::Mul(a.im, im)),
          hn::Add(hn::Mul(a.re, im), hn::Mul(a.im, re))};
}

/// a + x * b.
HWY_INLINE ComplexFrames plus_scaled(ComplexFrames a, float x, ComplexFrames b) {
  const auto scale = hn::Set(FrameTag(), x);
  return {hn::MulAdd(scale, b.re, a.re), hn::MulAdd(scale, b.im, a.im)};
}

/// -i * a.
HWY_INLINE ComplexFrames turned(ComplexFrames a) { return {a.im, hn::Neg(a.re)}; }

// The butterflies replace `a` by its discrete Fourier transform.

HWY_INLINE void butterfly2(ComplexFrames* a) {
  const ComplexFrames sum = plus(a[0], a[1]);
  a[1] = minus(a[0], a[1]);
  a[0] = sum;
}

HWY_INLINE void butterfly4(ComplexFrames* a) {
  const ComplexFrames even = plus(a[0], a[2]);
  const ComplexFrames odd = minus(a[0], a[2]);
  const ComplexFrames even13 = plus(a[1], a[3]);
  const ComplexFrames odd13 = turned(minus(a[1], a[3]));
  a[0] = plus(even, even13);
  a[1] = plus(odd, odd13);
  a[2] = minus(even, even13);
  a[3] = minus(odd, odd13);
}

HWY_INLINE void butterfly5(ComplexFrames* a) {
  constexpr float kCos1 = 0.30901699437494745F, kCos2 = -0.8090169943749475F;
  constexpr float kSin1 = 0.9510565162951535F, kSin2 = 0.5877852522924731F;
  const FrameTag d;
  const ComplexFrames sum14 = plus(a[1], a[4]), sum23 = plus(a[2], a[3]);
  const ComplexFrames dif14 = turned(minus(a[1], a[4])), dif23 = turned(minus(a[2], a[3]));
  const ComplexFrames even1 = plus_scaled(plus_scaled(a[0], kCos1, sum14), kCos2, sum23);
  const ComplexFrames even2 = plus_scaled(plus_scaled(a[0], kCos2, sum14), kCos1, sum23);
  const ComplexFrames zero = {hn::Zero(d), hn::Zero(d)};
  const ComplexFrames odd1 = plus_scaled(plus_scaled(zero, kSin1, dif14), kSin2, dif23);
  const ComplexFrames odd2 = plus_scaled(plus_scaled(zero, kSin2, dif14), -kSin1, dif23);
  a[0] = plus(a[0], plus(sum14, sum23));
  a[1] = plus(even1, odd1);
  a[4] = minus(even1, odd1);
  a[2] = plus(even2, odd2);
  a[3] = minus(even2, odd2);
}

/// One stage of Stockham's algorithm: `length` = radix * count values that are `stride` apart.
template <int kRadix>
HWY_INLINE void fft_stage(const MelPlan::Stage& stage, const float* from, float* to) {
  const std::int64_t count = stage.count;
  const std::int64_t stride = stage.stride;
  for (std::int64_t p = 0; p < count; ++p) {
    const float* w = stage.twiddles.data() + p * (kRadix - 1) * 2;
    for (std::int64_t q = 0; q < stride; ++q) {
      ComplexFrames a[kRadix];  // NOLINT: vectors cannot be in std::array on every target
      for (std::int64_t k = 0; k < kRadix; ++k) {
        a[k] = load_complex(from, q + stride * (p + k * count));
      }
      if constexpr (kRadix == 2) {
        butterfly2(a);
      } else if constexpr (kRadix == 4) {
        butterfly4(a);
      } else {
        butterfly5(a);
      }
      store_complex(a[0], to, q + stride * kRadix * p);
      for (std::int64_t k = 1; k < kRadix; ++k) {
        store_complex(times(a[k], w + (k - 1) * 2), to, q + stride * (kRadix * p + k));
      }
    }
  }
}

/// Any other radix, by the definition.
HWY_INLINE void fft_stage_of(const MelPlan::Stage& stage, const float* from, float* to) {
  const FrameTag d;
  const std::int64_t radix = stage.radix;
  for (std::int64_t p = 0; p < stage.count; ++p) {
    const float* w = stage.twiddles.data() + p * (radix - 1) * 2;
    for (std::int64_t q = 0; q < stage.stride; ++q) {
      for (std::int64_t k = 0; k < radix; ++k) {
        ComplexFrames sum = {hn::Zero(d), hn::Zero(d)};
        for (std::int64_t j = 0; j < radix; ++j) {
          sum = plus(sum, times(load_complex(from, q + stage.stride * (p + j * stage.count)),
                                stage.roots.data() + k * j % radix * 2));
        }
        store_complex(k == 0 ? sum : times(sum, w + (k - 1) * 2), to,
                      q + stage.stride * (radix * p + k));
      }
    }
  }
}

/// Writes the powers of frequencies [0, fft / 2] of the real frames whose Fourier transform, as
/// complex numbers of even and odd samples, is `half`.
HWY_INLINE void store_powers(const MelPlan& plan, const float* half, float* powers) {
  const FrameTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t count = plan.fft / 2;
  const auto one_half = hn::Set(d, 0.5F);
  for (std::int64_t k = 0; k <= count / 2; ++k) {
    const ComplexFrames a = load_complex(half, k);
    ComplexFrames b = load_complex(half, k == 0 ? 0 : count - k);
    b.im = hn::Neg(b.im);
    const ComplexFrames even = plus(a, b);
    const ComplexFrames odd = times(turned(minus(a, b)), plan.real_twiddles.data() + 2 * k);
    const auto power = [&](ComplexFrames x) HWY_ATTR {
      const auto re = hn::Mul(x.re, one_half);
      const auto im = hn::Mul(x.im, one_half);
      return hn::MulAdd(re, re, hn::Mul(im, im));
    };
    hn::StoreU(power(plus(even, odd)), d, powers + k * lanes);
    hn::StoreU(power(minus(even, odd)), d, powers + (count - k) * lanes);
  }
}

HWY_MAYBE_UNUSED inline void mel_powers_simd(const MelPlan& plan, const float* signal,
                                             std::int64_t frames, std::int64_t row, float* to,
                                             float* scratch) {
  const FrameTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  const std::int64_t values = plan.fft * lanes;
  for (std::int64_t first = 0; first < frames; first += lanes) {
    const std::int64_t used = frames - first < lanes ? frames - first : lanes;
    float* from = scratch;
    float* other = scratch + values;
    for (std::int64_t lane = 0; lane < lanes; ++lane) {
      // Lanes after the last frame repeat it.
      const float* frame = signal + (first + (lane < used ? lane : used - 1)) * plan.hop;
      for (std::int64_t i = 0; i < plan.fft; ++i) {
        from[i * lanes + lane] = frame[i] * plan.window[static_cast<std::size_t>(i)];
      }
    }
    for (const MelPlan::Stage& stage : plan.stages) {
      switch (stage.radix) {
        case 2:
          fft_stage<2>(stage, from, other);
          break;
        case 4:
          fft_stage<4>(stage, from, other);
          break;
        case 5:
          fft_stage<5>(stage, from, other);
          break;
        default:
          fft_stage_of(stage, from, other);
      }
      std::swap(from, other);
    }
    float* powers = scratch + 2 * values;
    store_powers(plan, from, powers);
    const float* weights = plan.weights.data();
    float* result = to + first;
    for (const MelPlan::Filter& filter : plan.filters) {
      auto sum = hn::Zero(d);
      for (std::int32_t i = 0; i < filter.count; ++i) {
        sum = hn::MulAdd(hn::Set(d, weights[i]), hn::LoadU(d, powers + (filter.first + i) * lanes),
                         sum);
      }
      weights += filter.count;
      if (used == lanes) {
        hn::StoreU(sum, d, result);
      } else {
        hn::StoreU(sum, d, other);
        for (std::int64_t lane = 0; lane < used; ++lane) {
          result[lane] = other[lane];
        }
      }
      result += row;
    }
  }
}

HWY_MAYBE_UNUSED inline float weighted_samples_simd(const float* samples, const float* weights,
                                                    std::int64_t count) {
  const FrameTag d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  auto sum = hn::Zero(d);
  std::int64_t i = 0;
  for (; i + lanes <= count; i += lanes) {
    sum = hn::MulAdd(hn::LoadU(d, samples + i), hn::LoadU(d, weights + i), sum);
  }
  float total = hn::GetLane(hn::SumOfLanes(d, sum));
  for (; i < count; ++i) {
    total += samples[i] * weights[i];
  }
  return total;
}

}  // namespace HWY_NAMESPACE
}  // namespace energon::kernels
HWY_AFTER_NAMESPACE();
#endif
