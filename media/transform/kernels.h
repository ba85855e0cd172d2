// Vectorized loops over pixels, for the best instruction set of the processor (Google Highway,
// dynamic dispatch). Results are bit-identical with every instruction set. Internal to
// media/transform.

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "media/transform/normalize.h"
#include "media/transform/resize.h"

namespace energon {

/// The constants of a LogMelOptions.
struct MelPlan {
  /// Frames that are computed at once.
  static constexpr int kMostLanes = 8;

  /// A stage of the Fourier transform of fft / 2 complex numbers.
  struct Stage {
    std::int64_t radix;
    std::int64_t count;             ///< transforms of `radix` values
    std::int64_t stride;            ///< the product of the radixes before
    std::vector<float> twiddles;    ///< (count, radix - 1, 2)
    std::vector<float> roots = {};  ///< (radix, 2), if the radix is not 2, 4 or 5
  };

  /// The frequencies [first, first + count) of a filter.
  struct Filter {
    std::int32_t first;
    std::int32_t count;
  };

  std::int64_t fft = 0;
  std::int64_t hop = 0;
  std::vector<float> window;
  std::vector<Stage> stages;
  std::vector<float> real_twiddles;  ///< (fft / 4 + 1, 2)
  std::vector<Filter> filters;
  std::vector<float> weights;  ///< of all filters

  /// Numbers that mel_powers() needs as `scratch`.
  std::size_t scratch() const { return static_cast<std::size_t>(3 * fft + 2) * kMostLanes; }
};

}  // namespace energon

namespace energon::kernels {

/// Bytes after the last pixel of a source row that resize_rows() may read.
inline constexpr std::int64_t kReadAfter = 16;

/// Resizes 4 rows of `channels` (1 to 4) interleaved uint8 to `width` pixels each. Rows may be the
/// same. Reads up to kReadAfter bytes after the rows.
void resize_rows(const std::array<const std::uint8_t*, 4>& rows, int channels,
                 const FilterTable& table, std::int64_t width,
                 const std::array<std::uint8_t*, 4>& to);

/// to[i] = the weighted sum of rows[k][i] over the `count` rows that begin every `row_bytes` bytes
/// at `first`. `packed` are their weights, as in FilterTable.
void blend_rows(const std::uint8_t* first, std::int64_t row_bytes, std::int32_t count,
                const std::int16_t* packed, std::int64_t bytes, std::uint8_t* to);

/// Converts a row of `width` interleaved uint8 pixels to values in one row per channel; `mirrored`
/// writes them from the last pixel to the first.
void normalize_planar(const std::uint8_t* row, std::int64_t width, int channels,
                      const LevelScales& scales, bool mirrored, const std::array<float*, 4>& to);
/// The same, rounded to bfloat16 (to nearest, ties to even).
void normalize_planar(const std::uint8_t* row, std::int64_t width, int channels,
                      const LevelScales& scales, bool mirrored,
                      const std::array<std::uint16_t*, 4>& to);

/// Copies the levels; ignores `scales`.
void normalize_planar(const std::uint8_t* row, std::int64_t width, int channels,
                      const LevelScales& scales, bool mirrored,
                      const std::array<std::uint8_t*, 4>& to);

/// Converts to interleaved values, float32 or bfloat16, not mirrored.
void normalize_interleaved(const std::uint8_t* row, std::int64_t width, int channels,
                           const LevelScales& scales, float* to);
void normalize_interleaved(const std::uint8_t* row, std::int64_t width, int channels,
                           const LevelScales& scales, std::uint16_t* to);

/// In place: (level * factor + offset) >> 12, clamped. |factor| <= 2^20, |offset| <= 2^30.
void scale_levels(std::uint8_t* levels, std::int64_t count, std::int32_t factor,
                  std::int32_t offset);

/// gray = (19589 R + 38470 G + 7471 B) >> 16, for `count` pixels.
void gray_of_rgb(const std::uint8_t* rgb, std::int64_t count, std::uint8_t* gray);

/// In place: level = gray + (level - gray) * factor / 2^14, rounded down and clamped. `factor` is
/// in [0, 2^22].
void saturate_rgb(std::uint8_t* rgb, std::int64_t count, std::int32_t factor);

/// For each of `frames` frames, which begin every plan.hop samples at `signal`, writes the sums of
/// the filters: (filters, frames), rows `row` apart.
void mel_powers(const MelPlan& plan, const float* signal, std::int64_t frames, std::int64_t row,
                float* to, float* scratch);

/// The sum of samples[i] * weights[i].
float weighted_samples(const float* samples, const float* weights, std::int64_t count);

/// In place: rotates the hue by `turn` / (6 * 2^16) of the circle, 0 <= turn < 6 * 2^16.
void turn_hue_rgb(std::uint8_t* rgb, std::int64_t count, std::int32_t turn);

}  // namespace energon::kernels

// The two passes of a uint8 resize without vectors: for very small images, and for processors
// without a supported vector instruction set.
namespace energon::plain {

inline std::uint8_t level_of(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> FilterTable::kFractionBits, 0, 255));
}

/// Resizes one row of interleaved pixels to `width` pixels.
inline void resize_row(const std::uint8_t* row, int channels, const FilterTable& table,
                       std::int64_t width, std::uint8_t* to) {
  for (std::int64_t x = 0; x < width; ++x) {
    const FilterTable::Taps taps = table.taps[static_cast<std::size_t>(x)];
    const std::int16_t* packed =
        table.packed.data() + x * table.groups * FilterTable::kGroupNumbers;
    const std::uint8_t* pixels = row + std::int64_t{taps.first} * channels;
    for (int channel = 0; channel < channels; ++channel) {
      std::int32_t sum = 1 << (FilterTable::kFractionBits - 1);
      for (std::int32_t tap = 0; tap < taps.count; ++tap) {
        sum += pixels[std::int64_t{tap} * channels + channel] * FilterTable::weight(packed, tap);
      }
      to[x * channels + channel] = level_of(sum);
    }
  }
}

/// See kernels::blend_rows().
inline void blend_rows(const std::uint8_t* first, std::int64_t row_bytes, std::int32_t count,
                       const std::int16_t* packed, std::int64_t bytes, std::uint8_t* to) {
  for (std::int64_t i = 0; i < bytes; ++i) {
    std::int32_t sum = 1 << (FilterTable::kFractionBits - 1);
    for (std::int32_t tap = 0; tap < count; ++tap) {
      sum += first[tap * row_bytes + i] * FilterTable::weight(packed, tap);
    }
    to[i] = level_of(sum);
  }
}

}  // namespace energon::plain
