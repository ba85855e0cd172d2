// Reads numbers and runs of bytes from the front of encoded data. Internal to media/data.
//
// Nothing is read past the end: data that is cut is an Error with the place.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "io/bytes.h"

namespace energon {

/// Not thread-safe. Holds a view: the bytes must outlive it.
class ByteCursor {
 public:
  /// `format` names the data in messages: "the MessagePack".
  ByteCursor(ByteView bytes, const char* format) : bytes_(bytes), format_(format) {}

  std::size_t position() const { return position_; }
  std::size_t left() const { return bytes_.size() - position_; }
  bool at_end() const { return left() == 0; }

  /// The next `count` bytes. `what` names them in the message: "a text". Throws Error
  /// (kCorruptData) if fewer are left.
  ByteView take(std::uint64_t count, const char* what);

  /// The next byte, which stays. Throws as take().
  std::uint8_t peek(const char* what) const;

  /// The next number: an unsigned or signed integer or a floating-point number of IEEE 754. Throws
  /// as take().
  template <class Number, std::endian kOrder>
  Number number(const char* what) {
    std::byte bytes[sizeof(Number)];
    std::memcpy(bytes, take(sizeof(Number), what).data(), sizeof(Number));
    if constexpr (kOrder != std::endian::native) {
      for (std::size_t i = 0; i < sizeof(Number) / 2; ++i) {
        const std::byte other = bytes[i];
        bytes[i] = bytes[sizeof(Number) - 1 - i];
        bytes[sizeof(Number) - 1 - i] = other;
      }
    }
    Number result;
    std::memcpy(&result, bytes, sizeof(Number));
    return result;
  }

  /// Throws Error (kCorruptData) if bytes are left.
  void expect_end() const;

 private:
  [[noreturn]] void fail_cut(std::uint64_t count, const char* what) const;

  ByteView bytes_;
  const char* format_;
  std::size_t position_ = 0;
};

}  // namespace energon
