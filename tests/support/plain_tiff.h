// TIFF images whose pixels a test computes: uncompressed, RGB with 8 bits.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "io/bytes.h"

namespace energon::testing {

/// `text` with its owner.
inline SharedBytes owned_bytes(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {as_bytes(*owner), owner};
}

/// `level(x, y)` returns the three levels of a pixel. Sides are below 65,536.
template <class Level>
std::string plain_tiff(std::int64_t width, std::int64_t height, const Level& level) {
  std::string file;
  const auto put = [&file](std::uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      file += static_cast<char>(number >> (8 * i) & 0xFF);
    }
  };
  constexpr std::uint64_t kEntries = 9;
  constexpr std::uint64_t kBits = 8 + 2 + kEntries * 12 + 4;  // offset of three uint16
  constexpr std::uint64_t kPixels = kBits + 6;
  const auto entry = [&put](std::uint64_t tag, std::uint64_t type, std::uint64_t count,
                            std::uint64_t value) {
    put(tag, 2);
    put(type, 2);
    put(count, 4);
    put(value, 4);
  };
  constexpr std::uint64_t kShort = 3;
  constexpr std::uint64_t kLong = 4;
  file = "II*";
  put(0, 1);
  put(8, 4);  // the directory
  put(kEntries, 2);
  entry(256, kShort, 1, static_cast<std::uint64_t>(width));
  entry(257, kShort, 1, static_cast<std::uint64_t>(height));
  entry(258, kShort, 3, kBits);
  entry(259, kShort, 1, 1);  // no compression
  entry(262, kShort, 1, 2);  // RGB
  entry(273, kLong, 1, kPixels);
  entry(277, kShort, 1, 3);  // samples per pixel
  entry(278, kShort, 1, static_cast<std::uint64_t>(height));
  entry(279, kLong, 1, static_cast<std::uint64_t>(width * height * 3));
  put(0, 4);
  put(8, 2);
  put(8, 2);
  put(8, 2);
  for (std::int64_t y = 0; y < height; ++y) {
    for (std::int64_t x = 0; x < width; ++x) {
      for (const std::uint8_t channel : level(x, y)) {
        put(channel, 1);
      }
    }
  }
  return file;
}

}  // namespace energon::testing
