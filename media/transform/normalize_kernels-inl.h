// Converts levels to normalized values, for one instruction set. Included by kernels.cpp only.

// clang-format off
#if defined(ENERGON_NORMALIZE_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ENERGON_NORMALIZE_KERNELS_INL
#undef ENERGON_NORMALIZE_KERNELS_INL
#else
#define ENERGON_NORMALIZE_KERNELS_INL
#endif
// clang-format on

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include <hwy/highway.h>

#include "media/transform/kernels.h"

HWY_BEFORE_NAMESPACE();
namespace energon::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

inline constexpr std::size_t kMostLanes = hn::MaxLanes(hn::ScalableTag<float>());

/// Stores floats, or rounds them to bfloat16.
template <class V>
HWY_INLINE void store_values(V values, float* to) {
  hn::StoreU(values, hn::DFromV<V>(), to);
}
template <class V>
HWY_INLINE void store_values(V values, std::uint16_t* to) {
  const hn::RebindToUnsigned<hn::DFromV<V>> d32;
  const hn::RebindToSigned<hn::DFromV<V>> di32;
  const hn::Rebind<std::uint16_t, decltype(d32)> d16;
  const auto bits = hn::BitCast(d32, values);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d32, 1));
  const auto up = hn::Add(bits, hn::Add(odd, hn::Set(d32, 0x7FFF)));
  hn::StoreU(hn::DemoteTo(d16, hn::BitCast(di32, hn::ShiftRight<16>(up))), d16, to);
}

template <class V8, class V>
HWY_INLINE V values_of(V8 levels, V high, V low, V bias) {
  const hn::DFromV<V> d;
  const hn::RebindToSigned<decltype(d)> di32;
  const auto level = hn::ConvertTo(d, hn::PromoteTo(di32, levels));
  return hn::MulAdd(level, low, hn::MulAdd(level, high, bias));
}

/// Stores the vectors of one channel, at `place` in the row of the result.
template <class V8, class Out>
HWY_INLINE void store_channel(V8 levels, const LevelScale& scale, bool mirrored, Out* to) {
  const hn::Rebind<float, hn::DFromV<V8>> d;
  const auto values =
      values_of(levels, hn::Set(d, scale.high), hn::Set(d, scale.low), hn::Set(d, scale.bias));
  store_values(mirrored ? hn::Reverse(d, values) : values, to);
}

template <class V8>
HWY_INLINE void store_channel(V8 levels, const LevelScale& /*scale*/, bool mirrored,
                              std::uint8_t* to) {
  const hn::DFromV<V8> d8;
  const hn::Rebind<std::int32_t, decltype(d8)> d32;  // every target can reverse these
  hn::StoreU(mirrored ? hn::DemoteTo(d8, hn::Reverse(d32, hn::PromoteTo(d32, levels))) : levels, d8,
             to);
}

/// Converts a vector of pixels at `row` to position `place` of each channel.
template <int kChannels, class Out>
HWY_INLINE void planar_vector(const std::uint8_t* row, std::int64_t place,
                              const LevelScales& scales, bool mirrored,
                              const std::array<Out*, 4>& to) {
  const hn::Rebind<std::uint8_t, hn::ScalableTag<float>> d8;
  auto a = hn::Zero(d8), b = a, c = a, e = a;
  if constexpr (kChannels == 1) {
    a = hn::LoadU(d8, row);
  } else if constexpr (kChannels == 2) {
    hn::LoadInterleaved2(d8, row, a, b);
  } else if constexpr (kChannels == 3) {
    hn::LoadInterleaved3(d8, row, a, b, c);
  } else {
    hn::LoadInterleaved4(d8, row, a, b, c, e);
  }
  store_channel(a, scales[0], mirrored, to[0] + place);
  if constexpr (kChannels > 1) store_channel(b, scales[1], mirrored, to[1] + place);
  if constexpr (kChannels > 2) store_channel(c, scales[2], mirrored, to[2] + place);
  if constexpr (kChannels > 3) store_channel(e, scales[3], mirrored, to[3] + place);
}

template <int kChannels, class Out>
void planar_row(const std::uint8_t* row, std::int64_t width, const LevelScales& scales,
                bool mirrored, const std::array<Out*, 4>& to) {
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(hn::ScalableTag<float>()));
  std::int64_t x = 0;
  for (; x + lanes <= width; x += lanes) {
    planar_vector<kChannels>(row + x * kChannels, mirrored ? width - lanes - x : x, scales,
                             mirrored, to);
  }
  const std::int64_t left = width - x;
  if (left == 0) {
    return;
  }
  alignas(64) std::array<std::uint8_t, kMostLanes* kChannels> levels = {};
  alignas(64) std::array<std::array<Out, kMostLanes>, kChannels> values;
  std::array<Out*, 4> places = {};
  for (std::size_t c = 0; c < kChannels; ++c) {
    places[c] = values[c].data();
  }
  std::copy_n(row + x * kChannels, left * kChannels, levels.data());
  planar_vector<kChannels>(levels.data(), 0, scales, mirrored, places);
  for (std::size_t c = 0; c < kChannels; ++c) {
    std::copy_n(places[c] + (mirrored ? lanes - left : 0), left, to[c] + (mirrored ? 0 : x));
  }
}

template <class Out>
void planar(const std::uint8_t* row, std::int64_t width, int channels, const LevelScales& scales,
            bool mirrored, const std::array<Out*, 4>& to) {
  switch (channels) {
    case 1:
      return planar_row<1>(row, width, scales, mirrored, to);
    case 2:
      return planar_row<2>(row, width, scales, mirrored, to);
    case 3:
      return planar_row<3>(row, width, scales, mirrored, to);
    default:
      return planar_row<4>(row, width, scales, mirrored, to);
  }
}

/// The scales of as many vectors as there are channels; then the pattern of channels repeats.
struct RepeatedScales {
  alignas(64) std::array<float, 4 * kMostLanes> high, low, bias;
};

template <class Out>
void interleaved(const std::uint8_t* row, std::int64_t width, int channels,
                 const LevelScales& scales, Out* to) {
  const hn::ScalableTag<float> d;
  const hn::Rebind<std::uint8_t, decltype(d)> d8;
  const std::size_t lanes = hn::Lanes(d);
  const auto count = static_cast<std::size_t>(channels);
  RepeatedScales repeated;
  for (std::size_t i = 0; i < count * lanes; ++i) {
    const LevelScale& scale = scales[i % count];
    repeated.high[i] = scale.high;
    repeated.low[i] = scale.low;
    repeated.bias[i] = scale.bias;
  }
  const std::size_t levels = static_cast<std::size_t>(width) * count;
  std::size_t i = 0;
  std::size_t phase = 0;
  const auto vector = [&](const std::uint8_t* from, Out* place) {
    store_values(values_of(hn::LoadU(d8, from), hn::Load(d, repeated.high.data() + phase),
                           hn::Load(d, repeated.low.data() + phase),
                           hn::Load(d, repeated.bias.data() + phase)),
                 place);
  };
  for (; i + lanes <= levels; i += lanes) {
    vector(row + i, to + i);
    phase = phase + lanes == count * lanes ? 0 : phase + lanes;
  }
  if (i < levels) {
    alignas(64) std::array<std::uint8_t, kMostLanes> rest = {};
    alignas(64) std::array<Out, kMostLanes> values;
    std::copy_n(row + i, levels - i, rest.data());
    vector(rest.data(), values.data());
    std::copy_n(values.data(), levels - i, to + i);
  }
}

HWY_MAYBE_UNUSED inline void planar_floats_simd(const std::uint8_t* row, std::int64_t width,
                                                int channels, const LevelScales& scales,
                                                bool mirrored, const std::array<float*, 4>& to) {
  planar(row, width, channels, scales, mirrored, to);
}

HWY_MAYBE_UNUSED inline void planar_bfloats_simd(const std::uint8_t* row, std::int64_t width,
                                                 int channels, const LevelScales& scales,
                                                 bool mirrored,
                                                 const std::array<std::uint16_t*, 4>& to) {
  planar(row, width, channels, scales, mirrored, to);
}

HWY_MAYBE_UNUSED inline void planar_levels_simd(const std::uint8_t* row, std::int64_t width,
                                                int channels, const LevelScales& scales,
                                                bool mirrored,
                                                const std::array<std::uint8_t*, 4>& to) {
  planar(row, width, channels, scales, mirrored, to);
}

HWY_MAYBE_UNUSED inline void interleaved_floats_simd(const std::uint8_t* row, std::int64_t width,
                                                     int channels, const LevelScales& scales,
                                                     float* to) {
  interleaved(row, width, channels, scales, to);
}

HWY_MAYBE_UNUSED inline void interleaved_bfloats_simd(const std::uint8_t* row, std::int64_t width,
                                                      int channels, const LevelScales& scales,
                                                      std::uint16_t* to) {
  interleaved(row, width, channels, scales, to);
}

}  // namespace HWY_NAMESPACE
}  // namespace energon::kernels
HWY_AFTER_NAMESPACE();
#endif
