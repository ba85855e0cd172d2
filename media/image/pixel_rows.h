// Loops over the pixels of one row. Internal to media/image.

#pragma once

#include <cstddef>
#include <cstdint>

namespace energon {

// --- Planes and floats, with the machine's vector instructions (Google Highway) ---

/// Splits `width` interleaved pixels of 2 to 4 channels into planes: channel c of pixel x goes to
/// planes[c * plane_step + x]. Floats are divided by the largest value of the input type, correctly
/// rounded. No alignment is required; the memory must not overlap.
void split_row(const std::uint8_t* row, std::int64_t width, int channels, std::uint8_t* planes,
               std::ptrdiff_t plane_step);
void split_row(const std::uint8_t* row, std::int64_t width, int channels, float* planes,
               std::ptrdiff_t plane_step);
void split_row(const std::uint16_t* row, std::int64_t width, int channels, float* planes,
               std::ptrdiff_t plane_step);

/// The same division, without splitting.
void scale_row(const std::uint8_t* row, std::int64_t values, float* to);
void scale_row(const std::uint16_t* row, std::int64_t values, float* to);

// --- Channels, depth and order of interleaved pixels ---

/// Converts between gray, gray and alpha, RGB, and RGB and alpha (1 to 4 channels), as described at
/// ImageChannels. `row` has width * from values, `to` has room for width * channels. They must not
/// overlap.
void change_channels(const std::uint8_t* row, int from, std::int64_t width, int channels,
                     std::uint8_t* to);
void change_channels(const std::uint16_t* row, int from, std::int64_t width, int channels,
                     std::uint16_t* to);

/// Converts 16-bit values to 8-bit ones: (v * 255 + 32767) / 65535.
void narrow_row(const std::uint16_t* row, std::int64_t values, std::uint8_t* to);

/// Reverses the order of pixels of `pixel_bytes`.
void mirror_row(const std::byte* row, std::int64_t width, std::int64_t pixel_bytes, std::byte* to);

/// Converts Adobe's CMYK, in which 255 means no ink, to RGB as in Pillow.
void rgb_of_inverted_cmyk(const std::uint8_t* row, std::int64_t width, std::uint8_t* to);

}  // namespace energon
