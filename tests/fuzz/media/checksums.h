// Fixes the checksums of formats; otherwise no code after their checks would be reached.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include <zlib.h>

namespace energon::fuzz {

inline std::uint32_t number_at(const std::string& bytes, std::size_t at) {
  std::uint32_t number = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    number = number << 8 | static_cast<std::uint8_t>(bytes[at + i]);
  }
  return number;
}

/// The CRC-32 of all whole chunks of a PNG.
inline void mend_png(std::string& png) {
  constexpr std::size_t kSignature = 8;
  constexpr std::size_t kAround = 12;  // length, type, checksum
  for (std::size_t at = kSignature; at + kAround <= png.size();) {
    const std::size_t length = number_at(png, at);
    if (length > png.size() - at - kAround) {
      return;
    }
    const auto* from = reinterpret_cast<const Bytef*>(png.data() + at + 4);
    const auto checksum = static_cast<std::uint32_t>(crc32(0, from, static_cast<uInt>(length + 4)));
    for (std::size_t i = 0; i < 4; ++i) {
      png[at + 8 + length + i] = static_cast<char>(checksum >> (24 - 8 * i) & 0xFF);
    }
    at += kAround + length;
  }
}

/// The CRC-32 of RFC 3533 over one page of Ogg whose checksum is 0.
inline std::uint32_t ogg_page_checksum(const std::string& ogg, std::size_t begin,
                                       std::size_t size) {
  std::uint32_t value = 0;
  for (std::size_t i = 0; i < size; ++i) {
    value ^= std::uint32_t{static_cast<std::uint8_t>(ogg[begin + i])} << 24;
    for (int bit = 0; bit < 8; ++bit) {
      value = value << 1 ^ ((value >> 31) != 0 ? 0x04c11db7U : 0U);
    }
  }
  return value;
}

/// The checksums of all whole pages.
inline void mend_ogg(std::string& ogg) {
  constexpr std::size_t kHeader = 27;
  constexpr std::size_t kChecksum = 22;
  for (std::size_t at = 0; at + kHeader <= ogg.size();) {
    const std::size_t segments = static_cast<std::uint8_t>(ogg[at + kHeader - 1]);
    std::size_t size = kHeader + segments;
    for (std::size_t i = 0; i < segments && at + kHeader + i < ogg.size(); ++i) {
      size += static_cast<std::uint8_t>(ogg[at + kHeader + i]);
    }
    if (size > ogg.size() - at) {
      return;
    }
    for (std::size_t i = 0; i < 4; ++i) {
      ogg[at + kChecksum + i] = 0;
    }
    const std::uint32_t checksum = ogg_page_checksum(ogg, at, size);
    for (std::size_t i = 0; i < 4; ++i) {
      ogg[at + kChecksum + i] = static_cast<char>(checksum >> (8 * i) & 0xFF);
    }
    at += size;
  }
}

}  // namespace energon::fuzz
