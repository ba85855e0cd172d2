// Numbers in the header of a file, at places that the file itself names. Internal to
// media/metadata.

#pragma once

#include <cstddef>
#include <cstdint>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/error.h"

namespace energon {

/// Reads within `bytes`, which must outlive it. Functions throw Error (kCorruptData) with the place
/// if the file ends before the number.
class HeaderBytes {
 public:
  /// `format` names the file in messages: "TIFF".
  HeaderBytes(ByteView bytes, const char* format, bool is_little_endian)
      : bytes_(bytes), format_(format), is_little_endian_(is_little_endian) {}

  std::size_t size() const { return bytes_.size(); }
  std::uint8_t u8(std::uint64_t at) const { return static_cast<std::uint8_t>(number(at, 1)); }
  std::uint16_t u16(std::uint64_t at) const { return static_cast<std::uint16_t>(number(at, 2)); }
  std::uint32_t u32(std::uint64_t at) const { return static_cast<std::uint32_t>(number(at, 4)); }
  std::uint64_t u64(std::uint64_t at) const { return number(at, 8); }

  /// The number of `size` bytes, at most 8.
  std::uint64_t number(std::uint64_t at, unsigned size) const {
    if (at > bytes_.size() || size > bytes_.size() - at) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the {} ends at byte {}, but its header goes on at byte {}", format_,
                              bytes_.size(), at));
    }
    std::uint64_t value = 0;
    for (unsigned i = 0; i < size; ++i) {
      const unsigned place = is_little_endian_ ? size - 1 - i : i;
      value = value << 8U | std::to_integer<std::uint64_t>(bytes_[at + place]);
    }
    return value;
  }

 private:
  ByteView bytes_;
  const char* format_;
  bool is_little_endian_;
};

}  // namespace energon
