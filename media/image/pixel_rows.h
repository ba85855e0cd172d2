// Loops over the pixels of one row. Internal to media/image.

#pragma once

#include <cstddef>
#include <cstdint>

namespace energon {

// --- Planes and floats, with the vector instructions of the machine (Google Highway) ---

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

// --- Channels, depth and order of interleaved pixels ---

/// Gray, gray and alpha, RGB, or RGB and alpha (1 to 4 channels) to another of them, as
/// ImageChannels says. `row` has width * from values, `to` gets width * channels. They do not
/// overlap.
void change_channels(const std::uint8_t* row, int from, std::int64_t width, int channels,
                     std::uint8_t* to);
void change_channels(const std::uint16_t* row, int from, std::int64_t width, int channels,
                     std::uint16_t* to);

/// 16-bit values to 8-bit ones: (v * 255 + 32767) / 65535.
void narrow_row(const std::uint16_t* row, std::int64_t values, std::uint8_t* to);

/// Pixels of `pixel_bytes` in the other order.
void mirror_row(const std::byte* row, std::int64_t width, std::int64_t pixel_bytes, std::byte* to);

/// CMYK of Adobe's kind, where 255 is no ink, to RGB as in Pillow.
void rgb_of_inverted_cmyk(const std::uint8_t* row, std::int64_t width, std::uint8_t* to);

}  // namespace energon
