// Highway compiles this file once per instruction set and selects the best at run time. The file
// cannot be part of a unity build.

#include "media/image/pixel_rows.h"

#include <algorithm>
#include <cstring>
#include <limits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "media/image/pixel_rows.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace energon {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

// 1 / maximum in two parts, the first short enough that its product with a value is exact. The sum
// of both products is rounded once; for each of the 256 or 65536 values it is the correctly rounded
// quotient.
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

// In two steps, over pieces that fit into the L1 cache.
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

// --- Planes and floats ---

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

// --- Channels, depth and order ---

namespace {

// Luma of ITU-R BT.601 in units of 1/65536; with 16-bit values it just fits.
template <class T>
T gray_of(const T* rgb) {
  return static_cast<T>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16U);
}

// One loop is compiled for each pair of channel counts.
template <int kFrom, int kTo, class T>
void change(const T* row, std::int64_t width, T* to) {
  constexpr bool kFromColor = kFrom >= 3;
  constexpr bool kFromAlpha = kFrom % 2 == 0;
  for (std::int64_t x = 0; x < width; ++x, row += kFrom, to += kTo) {
    if constexpr (kTo < 3) {
      to[0] = kFromColor ? gray_of(row) : row[0];
    } else {
      to[0] = row[0];
      to[1] = row[kFromColor ? 1 : 0];
      to[2] = row[kFromColor ? 2 : 0];
    }
    if constexpr (kTo % 2 == 0) {
      to[kTo - 1] = kFromAlpha ? row[kFrom - 1] : std::numeric_limits<T>::max();
    }
  }
}

template <int kFrom, class T>
void change_from(const T* row, std::int64_t width, int channels, T* to) {
  switch (channels) {
    case 1:
      return change<kFrom, 1>(row, width, to);
    case 2:
      return change<kFrom, 2>(row, width, to);
    case 3:
      return change<kFrom, 3>(row, width, to);
    default:
      return change<kFrom, 4>(row, width, to);
  }
}

template <class T>
void change_any(const T* row, int from, std::int64_t width, int channels, T* to) {
  switch (from) {
    case 1:
      return change_from<1>(row, width, channels, to);
    case 2:
      return change_from<2>(row, width, channels, to);
    case 3:
      return change_from<3>(row, width, channels, to);
    default:
      return change_from<4>(row, width, channels, to);
  }
}

}  // namespace

void change_channels(const std::uint8_t* row, int from, std::int64_t width, int channels,
                     std::uint8_t* to) {
  change_any(row, from, width, channels, to);
}

void change_channels(const std::uint16_t* row, int from, std::int64_t width, int channels,
                     std::uint16_t* to) {
  change_any(row, from, width, channels, to);
}

void narrow_row(const std::uint16_t* row, std::int64_t values, std::uint8_t* to) {
  for (std::int64_t i = 0; i < values; ++i) {
    to[i] = static_cast<std::uint8_t>((row[i] * 255U + 32767U) / 65535U);
  }
}

void mirror_row(const std::byte* row, std::int64_t width, std::int64_t pixel_bytes, std::byte* to) {
  for (std::int64_t x = 0; x < width; ++x) {
    std::memcpy(to + x * pixel_bytes, row + (width - 1 - x) * pixel_bytes,
                static_cast<std::size_t>(pixel_bytes));
  }
}

void rgb_of_inverted_cmyk(const std::uint8_t* row, std::int64_t width, std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x, row += 4, to += 3) {
    const int light = row[3];
    for (int channel = 0; channel < 3; ++channel) {
      const int product = (255 - row[channel]) * light + 128;
      to[channel] =
          static_cast<std::uint8_t>(std::max(0, light - ((product >> 8) + product) / 256));
    }
  }
}

}  // namespace energon
#endif  // HWY_ONCE
