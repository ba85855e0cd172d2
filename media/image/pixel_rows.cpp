// Highway compiles this file once for each set of instructions and takes the best at run time. It
// cannot be part of a unity build.

#include "media/image/pixel_rows.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "media/image/pixel_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace energon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 1 / maximum in two parts, the first so short that its product with a value is exact. Their sum is
// then rounded once, which for each of the 256 or 65536 values is the correctly rounded quotient.
template <class In>
struct Reciprocal;
template <>
struct Reciprocal<std::uint8_t> {
  static constexpr float kHigh = 0x1.01p-8F;
  static constexpr float kLow = 0x1.010102p-24F;
};
template <>
struct Reciprocal<std::uint16_t> {
  static constexpr float kHigh = 0x1p-16F;
  static constexpr float kLow = 0x1.0001p-32F;
};

template <class In>
void Scale(const In* row, std::int64_t values, float* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::int32_t, decltype(d)> d_int;
  const hn::Rebind<In, decltype(d)> d_in;
  const auto high = hn::Set(d, Reciprocal<In>::kHigh);
  const auto low = hn::Set(d, Reciprocal<In>::kLow);
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t i = 0;
  for (; i + lanes <= values; i += lanes) {
    const auto value = hn::ConvertTo(d, hn::PromoteTo(d_int, hn::LoadU(d_in, row + i)));
    hn::StoreU(hn::MulAdd(value, high, hn::Mul(value, low)), d, to + i);
  }
  for (; i < values; ++i) {
    const auto value = static_cast<float>(row[i]);
    to[i] = value * Reciprocal<In>::kHigh + value * Reciprocal<In>::kLow;
  }
}

template <int kChannels, class D, class In>
void SplitVector(D d, const In* row, In* planes, std::ptrdiff_t step) {
  hn::Vec<D> a;
  hn::Vec<D> b;
  hn::Vec<D> c;
  hn::Vec<D> e;
  if constexpr (kChannels == 2) {
    hn::LoadInterleaved2(d, row, a, b);
  } else if constexpr (kChannels == 3) {
    hn::LoadInterleaved3(d, row, a, b, c);
    hn::StoreU(c, d, planes + 2 * step);
  } else {
    hn::LoadInterleaved4(d, row, a, b, c, e);
    hn::StoreU(c, d, planes + 2 * step);
    hn::StoreU(e, d, planes + 3 * step);
  }
  hn::StoreU(a, d, planes);
  hn::StoreU(b, d, planes + step);
}

template <int kChannels, class In>
void Split(const In* row, std::int64_t width, In* planes, std::ptrdiff_t step) {
  const hn::ScalableTag<In> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  std::int64_t x = 0;
  for (; x + lanes <= width; x += lanes) {
    SplitVector<kChannels>(d, row + x * kChannels, planes + x, step);
  }
  for (; x < width; ++x) {
    for (int channel = 0; channel < kChannels; ++channel) {
      planes[channel * step + x] = row[x * kChannels + channel];
    }
  }
}

template <class In>
void SplitAny(const In* row, std::int64_t width, int channels, In* planes, std::ptrdiff_t step) {
  switch (channels) {
    case 2:
      return Split<2>(row, width, planes, step);
    case 3:
      return Split<3>(row, width, planes, step);
    default:
      return Split<4>(row, width, planes, step);
  }
}

// In two steps over pieces that stay in the first cache.
template <class In>
void SplitAndScale(const In* row, std::int64_t width, int channels, float* planes,
                   std::ptrdiff_t step) {
  constexpr std::int64_t kPiece = 512;
  In piece[4 * kPiece];
  for (std::int64_t x = 0; x < width; x += kPiece) {
    const std::int64_t count = std::min(kPiece, width - x);
    SplitAny(row + x * channels, count, channels, piece, kPiece);
    for (int channel = 0; channel < channels; ++channel) {
      Scale(piece + channel * kPiece, count, planes + channel * step + x);
    }
  }
}

void SplitBytes(const std::uint8_t* row, std::int64_t width, int channels, std::uint8_t* planes,
                std::ptrdiff_t step) {
  SplitAny(row, width, channels, planes, step);
}
void SplitBytesToFloat(const std::uint8_t* row, std::int64_t width, int channels, float* planes,
                       std::ptrdiff_t step) {
  SplitAndScale(row, width, channels, planes, step);
}
void SplitWordsToFloat(const std::uint16_t* row, std::int64_t width, int channels, float* planes,
                       std::ptrdiff_t step) {
  SplitAndScale(row, width, channels, planes, step);
}
void ScaleBytes(const std::uint8_t* row, std::int64_t values, float* to) { Scale(row, values, to); }
void ScaleWords(const std::uint16_t* row, std::int64_t values, float* to) {
  Scale(row, values, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace energon
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace energon {

HWY_EXPORT(SplitBytes);
HWY_EXPORT(SplitBytesToFloat);
HWY_EXPORT(SplitWordsToFloat);
HWY_EXPORT(ScaleBytes);
HWY_EXPORT(ScaleWords);

void split_row(const std::uint8_t* row, std::int64_t width, int channels, std::uint8_t* planes,
               std::ptrdiff_t plane_step) {
  HWY_DYNAMIC_DISPATCH(SplitBytes)(row, width, channels, planes, plane_step);
}

void split_row(const std::uint8_t* row, std::int64_t width, int channels, float* planes,
               std::ptrdiff_t plane_step) {
  HWY_DYNAMIC_DISPATCH(SplitBytesToFloat)(row, width, channels, planes, plane_step);
}

void split_row(const std::uint16_t* row, std::int64_t width, int channels, float* planes,
               std::ptrdiff_t plane_step) {
  HWY_DYNAMIC_DISPATCH(SplitWordsToFloat)(row, width, channels, planes, plane_step);
}

void scale_row(const std::uint8_t* row, std::int64_t values, float* to) {
  HWY_DYNAMIC_DISPATCH(ScaleBytes)(row, values, to);
}

void scale_row(const std::uint16_t* row, std::int64_t values, float* to) {
  HWY_DYNAMIC_DISPATCH(ScaleWords)(row, values, to);
}

}  // namespace energon
#endif  // HWY_ONCE
