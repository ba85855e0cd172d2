// Reading encoded data in memory: numbers, text and runs of bytes from the front, within limits.
//
// Nothing is read past the end: truncated data is an Error with the position.

#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "io/bytes.h"

namespace energon {

/// The number of bytes that decoded data may take, and the option that sets it, for the message.
struct MemoryLimit {
  std::uint64_t bytes = 0;
  std::string_view option = {};  ///< empty: the limit is fixed

  /// Throws Error (kResourceExhausted) if `needed` is above the limit. `what` begins the message:
  /// "the array".
  void check(std::string_view what, std::uint64_t needed) const;
};

/// Bytes of the well-formed UTF-8 sequence that `text` starts with, 0 if there is none: the table
/// of the Unicode standard (3-7), without overlong forms and surrogates. Requires: not empty.
/// Thread-safe.
std::size_t utf8_length(std::string_view text);

/// A copy of `bytes` as text. `what` begins the message and `position` is the offset of the first
/// byte in the encoded data. Thread-safe. Throws Error (kCorruptData) with offset and value of the
/// first byte that is not UTF-8.
std::string utf8_text(ByteView bytes, std::string_view what, std::size_t position);

/// Bytes with memory of their own.
SharedBytes copy_of(ByteView bytes);

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

  /// The next `count` bytes as text. Throws as take() and utf8_text().
  std::string text(std::uint64_t count, const char* what);

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
