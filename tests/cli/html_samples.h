// Small encoded parts for tests of pages and of lint.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "io/json.h"

namespace energon::testing {

/// A PNG of 4 x 3 pixels, RGB. Made with Python 3.11's zlib: zlib.compress(rows, 9), each row
/// filter 0 and the pixels (200, 30, 60 x).
inline std::string small_png() {
  return from_base64(
             "iVBORw0KGgoAAAANSUhEUgAAAAQAAAADCAIAAAA7ljmRAAAAGElEQVR42mM4IcdwQs7mhFzFCbktDDg5"
             "AB9SDwERMDDnAAAAAElFTkSuQmCC")
      .value();
}

inline std::string big_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(number >> shift & 0xFF);
  }
  return bytes;
}

/// The same pixels in a file of at least `bytes` bytes: a private chunk, which decoders skip, makes
/// it large. CRC as in the PNG specification, annex D.
inline std::string large_png(std::size_t bytes) {
  const std::string body = "prIv" + std::string(bytes, 'x');
  std::uint32_t crc = 0xFFFFFFFF;
  for (const char c : body) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) {
      crc = (crc & 1) != 0 ? 0xEDB88320 ^ crc >> 1 : crc >> 1;
    }
  }
  std::string png = small_png();
  return png.insert(33, big_endian(static_cast<std::uint32_t>(bytes)) + body + big_endian(~crc));
}

inline std::string little_endian(std::uint32_t number) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>(number >> shift & 0xFF);
  }
  return bytes;
}

/// A WAVE file: 8000 samples per second of one channel, 8 bits each.
inline std::string small_wav(std::uint32_t samples) {
  return "RIFF" + little_endian(36 + samples) + "WAVEfmt " + little_endian(16) +
         std::string("\1\0\1\0", 4) + little_endian(8000) + little_endian(8000) +
         std::string("\1\0\x08\0", 4) + "data" + little_endian(samples) +
         std::string(samples, '\x80');
}

/// A NumPy array, float32 (4,): 1, 2.5, -3, not a number.
inline std::string small_npy() {
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }";
  header.resize(117, ' ');
  std::string npy("\x93NUMPY\1\0\x76\0", 10);
  return npy + header + "\n" + little_endian(0x3F800000) + little_endian(0x40200000) +
         little_endian(0xC0400000) + little_endian(0x7FC00000);
}

}  // namespace energon::testing
