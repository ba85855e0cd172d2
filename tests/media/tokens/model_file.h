// The models of data/, and ways to build and damage models of SentencePiece.

#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/file.h"

namespace energon::testing {

/// The bytes of tests/media/tokens/data/`name`.
inline std::string token_file(const std::string& name) {
  return read_file(std::string(ENERGON_SOURCE_DIR) + "/tests/media/tokens/data/" + name);
}

/// Little-endian.
inline std::string fixed32(std::uint32_t number) {
  std::string bytes;
  for (int shift = 0; shift < 32; shift += 8) {
    bytes += static_cast<char>(number >> shift & 0xFF);
  }
  return bytes;
}

inline std::string varint(std::uint64_t number) {
  std::string bytes;
  for (; number >= 0x80; number >>= 7) {
    bytes += static_cast<char>(0x80 | (number & 0x7F));
  }
  return bytes + static_cast<char>(number);
}

/// A field of a message of Protocol Buffers.
inline std::string bytes_field(std::uint64_t number, std::string_view content) {
  return varint(number << 3 | 2) + varint(content.size()) + std::string(content);
}

inline std::string integer_field(std::uint64_t number, std::uint64_t value) {
  return varint(number << 3) + varint(value);
}

/// A piece of a model; type 1 is normal, 2 unknown, 4 a symbol of the user.
inline std::string piece_field(std::string_view text, float score = -1, std::uint64_t type = 1) {
  return bytes_field(1, bytes_field(1, text) + varint(2 << 3 | 5) +
                            fixed32(std::bit_cast<std::uint32_t>(score)) + integer_field(3, type));
}

/// A model of <unk>, a and b, to which fields are appended.
inline std::string small_model(const std::string& fields = "") {
  return piece_field("<unk>", 0, 2) + piece_field("a") + piece_field("b") + fields;
}

/// Rules of normalisation with this table.
inline std::string normalizer_field(const std::string& charsmap) {
  return bytes_field(3, bytes_field(2, charsmap));
}

/// A table of normalisation.
inline std::string charsmap(const std::vector<std::uint32_t>& units, std::string_view texts) {
  std::string table = fixed32(static_cast<std::uint32_t>(units.size() * 4));
  for (const std::uint32_t unit : units) {
    table += fixed32(unit);
  }
  return table + std::string(texts);
}

}  // namespace energon::testing
