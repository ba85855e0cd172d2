// Writes and reads the little-endian fields of our binary formats: files, states, samples in
// transit.
//
// The reader trusts nothing: it checks each length against the remaining bytes before use.

#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

static_assert(std::endian::native == std::endian::little,
              "fields are little-endian and are read and written as they are");

class ByteWriter {
 public:
  void u8(std::uint8_t value) { bytes_.push_back(static_cast<char>(value)); }
  void u16(std::uint16_t value) { raw(&value, sizeof(value)); }
  void u32(std::uint32_t value) { raw(&value, sizeof(value)); }
  void u64(std::uint64_t value) { raw(&value, sizeof(value)); }
  void i64(std::int64_t value) { raw(&value, sizeof(value)); }
  void f64(double value) { raw(&value, sizeof(value)); }
  /// Seven bits per byte, lowest first; the highest bit is set if more bytes follow.
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) {
      u8(static_cast<std::uint8_t>(value) | 0x80);
    }
    u8(static_cast<std::uint8_t>(value));
  }
  /// Zigzag: maps 0, -1, 1, -2, … to 0, 1, 2, 3, …
  void signed_varint(std::int64_t value) {
    varint((static_cast<std::uint64_t>(value) << 1) ^ static_cast<std::uint64_t>(value >> 63));
  }
  /// Writes a u32 length, then the bytes. Throws Error (kResourceExhausted) above 4 GiB.
  void text(std::string_view value) {
    u32(checked_length(value));
    raw(value);
  }
  /// The length of a string as a u32. Throws like text().
  static std::uint32_t checked_length(std::string_view value) {
    if (value.size() > UINT32_MAX) {
      throw Error(
          ErrorCode::kResourceExhausted,
          fmt::format("a string or saved field of {} bytes is longer than 4 GiB", value.size()));
    }
    return static_cast<std::uint32_t>(value.size());
  }
  void raw(std::string_view bytes) { bytes_ += bytes; }
  void raw(const void* data, std::size_t size) {
    bytes_.append(static_cast<const char*>(data), size);
  }

  void reserve(std::size_t size) { bytes_.reserve(size); }

  const std::string& bytes() const { return bytes_; }
  std::string take() { return std::move(bytes_); }
  void clear() { bytes_.clear(); }

 private:
  std::string bytes_;
};

/// All reading functions throw Error (kCorruptData) with the name of the input and the byte
/// position.
class ByteReader {
 public:
  /// `what` names the input in errors, such as "state". Both views must outlive the reader.
  ByteReader(std::string_view bytes, std::string_view what) : bytes_(bytes), what_(what) {}

  std::uint8_t u8() { return number<std::uint8_t>(); }
  std::uint32_t u32() { return number<std::uint32_t>(); }
  std::uint64_t u64() { return number<std::uint64_t>(); }
  std::int64_t i64() { return number<std::int64_t>(); }
  double f64() { return number<double>(); }
  std::uint64_t varint() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t byte = u8();
      value |= std::uint64_t{byte & 0x7FU} << shift;
      if (byte < 0x80) {
        if (shift == 63 && byte > 1) {
          break;
        }
        return value;
      }
    }
    fail("integer of more than 64 bits");
  }
  std::int64_t signed_varint() {
    const std::uint64_t value = varint();
    return static_cast<std::int64_t>((value >> 1) ^ (0 - (value & 1)));
  }
  /// Skips the next `size` bytes and returns a reader of them, whose errors count positions from
  /// the start of the whole input.
  ByteReader part(std::size_t size) {
    const std::size_t begin = position_;
    raw(size);
    ByteReader part(bytes_.substr(0, position_), what_);
    part.position_ = begin;
    return part;
  }
  std::string_view text() { return raw(u32()); }
  std::string_view raw(std::size_t size) {
    if (size > left()) {
      fail(fmt::format("expected {} bytes, found {}", size, left()));
    }
    const std::string_view view = bytes_.substr(position_, size);
    position_ += size;
    return view;
  }
  /// Reads a count of elements of at least `element_size` bytes each, and checks it against the
  /// remaining bytes.
  std::uint32_t count(std::size_t element_size) {
    const std::uint32_t value = u32();
    if (value > left() / element_size) {
      fail(fmt::format("the count is {}, but at most {} elements fit into the remaining bytes",
                       value, left() / element_size));
    }
    return value;
  }

  std::size_t left() const { return bytes_.size() - position_; }
  std::size_t position() const { return position_; }
  /// Throws unless all bytes were read.
  void finish() const {
    if (left() != 0) {
      fail(fmt::format("{} unexpected bytes at the end", left()));
    }
  }
  [[noreturn]] void fail(std::string_view reason) const {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{} is damaged at byte {}: {}", what_, position_, reason));
  }

 private:
  template <class Number>
  Number number() {
    Number value;
    std::memcpy(&value, raw(sizeof(value)).data(), sizeof(value));
    return value;
  }

  std::string_view bytes_;
  std::string_view what_;
  std::size_t position_ = 0;
};

}  // namespace energon
