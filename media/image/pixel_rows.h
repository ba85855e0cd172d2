// The loops that see every pixel, with the vector instructions of the machine (Google Highway).
// Internal to media/image.

#pragma once

#include <cstddef>
#include <cstdint>

namespace energon {

/// Splits `width` interleaved pixels of 2 to 4 channels into planes: channel c of pixel x goes to
/// planes[c * plane_step + x]. To float: divided by the greatest value of the input's type,
/// correctly rounded. Nothing needs an alignment; the memory does not overlap.
void split_row(const std::uint8_t* row, std::int64_t width, int channels, std::uint8_t* planes,
               std::ptrdiff_t plane_step);
void split_row(const std::uint8_t* row, std::int64_t width, int channels, float* planes,
               std::ptrdiff_t plane_step);
void split_row(const std::uint16_t* row, std::int64_t width, int channels, float* planes,
               std::ptrdiff_t plane_step);

/// The same division, in place order.
void scale_row(const std::uint8_t* row, std::int64_t values, float* to);
void scale_row(const std::uint16_t* row, std::int64_t values, float* to);

}  // namespace energon
