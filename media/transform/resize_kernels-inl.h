// The two passes of a resize, for one instruction set. Included by kernels.cpp only.
//
// A weight of 22 bits is split into two 16-bit numbers, so that the sum of two 16-bit products,
// which processors compute in 32 bits with one instruction, is exact.

// clang-format off
#if defined(ENERGON_RESIZE_KERNELS_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef ENERGON_RESIZE_KERNELS_INL
#undef ENERGON_RESIZE_KERNELS_INL
#else
#define ENERGON_RESIZE_KERNELS_INL
#endif
// clang-format on

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include <hwy/highway.h>

#include "media/transform/kernels.h"
#include "media/transform/resize.h"

HWY_BEFORE_NAMESPACE();
namespace energon::kernels {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

HWY_MAYBE_UNUSED inline void resize_rows_simd(const std::array<const std::uint8_t*, 4>& rows,
                                              int channels, const FilterTable& table,
                                              std::int64_t width,
                                              const std::array<std::uint8_t*, 4>& to) {
  for (std::size_t r = 0; r < rows.size(); ++r) {
    plain::resize_row(rows[r], channels, table, width, to[r]);
  }
}

HWY_MAYBE_UNUSED inline void blend_rows_simd(const std::uint8_t* first, std::int64_t row_bytes,
                                             std::int32_t count, const std::int16_t* packed,
                                             std::int64_t bytes, std::uint8_t* to) {
  plain::blend_rows(first, row_bytes, count, packed, bytes, to);
}

#else

/// sum += pairs of a * b. On every Highway target, the pairs are those of adjacent lanes after
/// RearrangeToOddPlusEven().
template <class Words, class Sums>
HWY_INLINE void add_pairs(Words a, Words b, Sums& sum0, Sums& sum1) {
  const hn::DFromV<Sums> d32;
  sum0 = hn::ReorderWidenMulAccumulate(d32, a, b, sum0, sum1);
}

/// The levels of sums, rounded but not clamped.
template <class Sums>
HWY_INLINE Sums rounded(Sums sums) {
  const auto half = hn::Set(hn::DFromV<Sums>(), 1 << (FilterTable::kFractionBits - 1));
  return hn::ShiftRight<FilterTable::kFractionBits>(hn::Add(sums, half));
}

/// Sums of high and low parts, two vectors each, as ReorderWidenMulAccumulate() needs.
template <class Sums>
struct PairSums {
  Sums high0, high1, low0, low1;
};

/// The sum of high and low parts.
template <class Sums>
HWY_INLINE Sums total(const PairSums<Sums>& sums) {
  return hn::Add(
      hn::ShiftLeft<FilterTable::kLowBits>(hn::RearrangeToOddPlusEven(sums.high0, sums.high1)),
      hn::RearrangeToOddPlusEven(sums.low0, sums.low1));
}

/// The bytes of 4 interleaved pixels that form words (channel of tap 0, of tap 1). Block 1 uses
/// taps 2 and 3. 0x80 produces a zero.
template <int kChannels>
struct PixelOrder {
  alignas(32) std::array<std::uint8_t, 32> bytes = {};

  constexpr PixelOrder() {
    for (std::size_t i = 0; i < 32; ++i) {
      const std::size_t word = i % 16 / 2;
      const std::size_t tap = word % 2 + i / 16 * 2;
      const std::size_t channel = word / 2;
      const bool used = i % 2 == 0 && channel < kChannels;
      bytes[i] = static_cast<std::uint8_t>(used ? tap * kChannels + channel : 0x80);
    }
  }
};

/// The bytes of a group of weights that form (weight of tap 0, of tap 1) in every lane. Block 1
/// uses taps 2 and 3.
struct WeightOrder {
  alignas(32) std::array<std::uint8_t, 32> bytes = {};

  constexpr explicit WeightOrder(std::size_t begin) {
    for (std::size_t i = 0; i < 32; ++i) {
      bytes[i] = static_cast<std::uint8_t>(begin + i / 16 * 4 + i % 4);
    }
  }
};

/// Stores one pixel of each of rows a, b, c and e: the levels of its channels in a 32-bit word.
/// Each block of a sum is the sum of a part of the taps.
template <class Sums>
HWY_INLINE void store_pixels(Sums a, Sums b, Sums c, Sums e, std::uint32_t* pixels) {
  const hn::DFromV<Sums> d32;
  const hn::Repartition<std::int16_t, decltype(d32)> d16;
  auto* bytes = reinterpret_cast<std::uint8_t*>(pixels);
  if constexpr (hn::MaxLanes(hn::DFromV<Sums>()) == 8) {
    const auto ac = hn::Add(hn::ConcatLowerLower(d32, c, a), hn::ConcatUpperUpper(d32, c, a));
    const auto be = hn::Add(hn::ConcatLowerLower(d32, e, b), hn::ConcatUpperUpper(d32, e, b));
    const hn::Rebind<std::uint8_t, decltype(d16)> d8;
    hn::StoreU(hn::DemoteTo(d8, hn::ReorderDemote2To(d16, rounded(ac), rounded(be))), d8, bytes);
  } else {
    const hn::FixedTag<std::uint8_t, 4> d8;
    hn::StoreU(hn::DemoteTo(d8, rounded(a)), d8, bytes);
    hn::StoreU(hn::DemoteTo(d8, rounded(b)), d8, bytes + 4);
    hn::StoreU(hn::DemoteTo(d8, rounded(c)), d8, bytes + 8);
    hn::StoreU(hn::DemoteTo(d8, rounded(e)), d8, bytes + 12);
  }
}

/// The weights of one pixel of the result, and the offset of its first source pixel.
struct PixelWeights {
  const std::int16_t* packed;
  std::int64_t groups;
  std::int64_t offset;
};

/// Computes one pixel of the result in each of 4 rows.
template <int kChannels>
HWY_INLINE void resize_pixels(const std::array<const std::uint8_t*, 4>& rows,
                              const PixelWeights& weights, std::uint32_t* pixels) {
  const hn::CappedTag<std::uint8_t, 32> d8;  // one or two blocks of 16 bytes
  const hn::Repartition<std::int16_t, decltype(d8)> d16;
  const hn::Repartition<std::int32_t, decltype(d8)> d32;
  static constexpr PixelOrder<kChannels> kPixels;
  static constexpr WeightOrder kHigh(0);
  static constexpr WeightOrder kLow(8);
  const auto zero = hn::Zero(d32);
  PairSums<hn::Vec<decltype(d32)> > a = {zero, zero, zero, zero}, b = a, c = a, e = a;
  for (std::int64_t group = 0; group < weights.groups; ++group) {
    const std::int64_t offset = weights.offset + group * FilterTable::kGroupTaps * kChannels;
    const auto packed =
        hn::BitCast(d8, hn::LoadDup128(d16, weights.packed + group * FilterTable::kGroupNumbers));
    for (std::size_t block = 0; block < 2; block += hn::MaxLanes(d8) / 16) {
      const auto order = hn::Load(d8, kPixels.bytes.data() + block * 16);
      const auto high = hn::BitCast(
          d16, hn::TableLookupBytes(packed, hn::Load(d8, kHigh.bytes.data() + block * 16)));
      const auto low = hn::BitCast(
          d16, hn::TableLookupBytes(packed, hn::Load(d8, kLow.bytes.data() + block * 16)));
      const auto add_row = [&](const std::uint8_t* row, auto& sums) HWY_ATTR {
        const auto levels = hn::LoadDup128(d8, row + offset);
        const auto words = hn::BitCast(d16, hn::TableLookupBytesOr0(levels, order));
        add_pairs(words, high, sums.high0, sums.high1);
        add_pairs(words, low, sums.low0, sums.low1);
      };
      add_row(rows[0], a);
      add_row(rows[1], b);
      add_row(rows[2], c);
      add_row(rows[3], e);
    }
  }
  store_pixels(total(a), total(b), total(c), total(e), pixels);
}

template <int kChannels>
void resize_rows_of(const std::array<const std::uint8_t*, 4>& source, const FilterTable& table,
                    std::int64_t width, const std::array<std::uint8_t*, 4>& to) {
  const std::array<const std::uint8_t*, 4> rows = source;  // a copy that writes cannot alias
  const std::array<std::uint8_t*, 4> places = to;
  const FilterTable::Taps* taps = table.taps.data();
  PixelWeights weights = {table.packed.data(), 0, 0};
  const std::int64_t stride = std::int64_t{table.groups} * FilterTable::kGroupNumbers;
  std::array<std::uint32_t, 4> pixels = {};
  for (std::int64_t x = 0; x < width; ++x, weights.packed += stride) {
    weights.groups = (taps[x].count + 3) / FilterTable::kGroupTaps;
    weights.offset = std::int64_t{taps[x].first} * kChannels;
    resize_pixels<kChannels>(rows, weights, pixels.data());
    for (std::size_t r = 0; r < 4; ++r) {
      std::uint8_t* place = places[r] + x * kChannels;
      // NOLINTNEXTLINE(bugprone-branch-clone): the same for four channels only
      if ((x * kChannels) + 4 <= width * kChannels) {
        std::memcpy(place, &pixels[r], 4);  // the next pixels overwrite the extra bytes
      } else {
        std::memcpy(place, &pixels[r], kChannels);
      }
    }
  }
}

HWY_MAYBE_UNUSED inline void resize_rows_simd(const std::array<const std::uint8_t*, 4>& rows,
                                              int channels, const FilterTable& table,
                                              std::int64_t width,
                                              const std::array<std::uint8_t*, 4>& to) {
  switch (channels) {
    case 1:
      return resize_rows_of<1>(rows, table, width, to);
    case 2:
      return resize_rows_of<2>(rows, table, width, to);
    case 3:
      return resize_rows_of<3>(rows, table, width, to);
    default:
      return resize_rows_of<4>(rows, table, width, to);
  }
}

/// The weights of taps k and k + 1 (k even), as the words of one lane.
HWY_INLINE std::int32_t pair_of(const std::int16_t* packed, std::int32_t tap, bool low) {
  const std::int16_t* group =
      packed + std::ptrdiff_t{tap / FilterTable::kGroupTaps} * FilterTable::kGroupNumbers;
  std::int32_t pair = 0;
  std::memcpy(&pair, group + tap % FilterTable::kGroupTaps + (low ? FilterTable::kGroupTaps : 0),
              sizeof pair);
  return pair;
}

/// Computes one vector of levels of the result, from the bytes at `first`.
template <class D8>
HWY_INLINE void blend_vector(D8 d8, const std::uint8_t* first, std::int64_t row_bytes,
                             std::int32_t count, const std::int16_t* packed, std::uint8_t* to) {
  const hn::Rebind<std::int16_t, D8> d16;
  const hn::Repartition<std::int32_t, decltype(d16)> d32;
  const auto zero = hn::Zero(d32);
  PairSums<hn::Vec<decltype(d32)> > lower_sums = {zero, zero, zero, zero};
  PairSums<hn::Vec<decltype(d32)> > upper_sums = lower_sums;
  for (std::int32_t tap = 0; tap < count; tap += 2) {
    const std::uint8_t* row = first + tap * row_bytes;
    const auto a = hn::PromoteTo(d16, hn::LoadU(d8, row));
    // The weight after the last tap is 0, so any row will do.
    const auto b = hn::PromoteTo(d16, hn::LoadU(d8, tap + 1 < count ? row + row_bytes : row));
    const auto lower = hn::InterleaveLower(d16, a, b);
    const auto upper = hn::InterleaveUpper(d16, a, b);
    const auto high = hn::BitCast(d16, hn::Set(d32, pair_of(packed, tap, false)));
    const auto low = hn::BitCast(d16, hn::Set(d32, pair_of(packed, tap, true)));
    add_pairs(lower, high, lower_sums.high0, lower_sums.high1);
    add_pairs(lower, low, lower_sums.low0, lower_sums.low1);
    add_pairs(upper, high, upper_sums.high0, upper_sums.high1);
    add_pairs(upper, low, upper_sums.low0, upper_sums.low1);
  }
  const auto lower = rounded(total(lower_sums));
  const auto upper = rounded(total(upper_sums));
  // Undoes the interleaving: both work on blocks of 16 bytes.
  hn::StoreU(hn::DemoteTo(d8, hn::ReorderDemote2To(d16, lower, upper)), d8, to);
}

HWY_MAYBE_UNUSED inline void blend_rows_simd(const std::uint8_t* first, std::int64_t row_bytes,
                                             std::int32_t count, const std::int16_t* packed,
                                             std::int64_t bytes, std::uint8_t* to) {
  const hn::ScalableTag<std::int16_t> d16;
  const hn::Rebind<std::uint8_t, decltype(d16)> d8;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d8));
  for (std::int64_t i = 0; i + lanes <= bytes; i += lanes) {
    blend_vector(d8, first + i, row_bytes, count, packed, to + i);
  }
  if (bytes >= lanes) {
    const std::int64_t i = bytes - lanes;
    blend_vector(d8, first + i, row_bytes, count, packed, to + i);
    return;
  }
  plain::blend_rows(first, row_bytes, count, packed, bytes, to);
}

#endif

}  // namespace HWY_NAMESPACE
}  // namespace energon::kernels
HWY_AFTER_NAMESPACE();
#endif
