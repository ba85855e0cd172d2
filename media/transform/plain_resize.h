// The two passes of a resize of uint8 without vectors: for very small images, and for processors
// without vectors that the library knows.

#pragma once

#include <algorithm>
#include <cstdint>

#include "media/transform/filter_table.h"

namespace energon::plain {

inline std::uint8_t level_of(std::int32_t sum) {
  return static_cast<std::uint8_t>(std::clamp(sum >> FilterTable::kFractionBits, 0, 255));
}

/// One row of interleaved pixels to `width` pixels.
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
