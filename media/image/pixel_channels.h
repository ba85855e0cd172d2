// Changes channels, depth and order of one row of interleaved pixels. Internal to media/image.

#pragma once

#include <cstddef>
#include <cstdint>

namespace energon {

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
