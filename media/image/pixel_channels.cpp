#include "media/image/pixel_channels.h"

#include <algorithm>
#include <cstring>
#include <limits>

namespace energon {
namespace {

// Luma of ITU-R BT.601 in units of 1/65536; of 16-bit values it just fits.
template <class T>
T gray_of(const T* rgb) {
  return static_cast<T>((rgb[0] * 19595U + rgb[1] * 38470U + rgb[2] * 7471U + 0x8000U) >> 16U);
}

// The loops are compiled for each pair of channel counts.
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
