// Borrowed bytes, byte ranges, and bytes with shared ownership.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

namespace energon {

/// Borrowed bytes. Their owner defines how long they stay valid.
using ByteView = std::span<const std::byte>;

/// The same bytes as characters; for names, text and JSON.
inline std::string_view as_text(ByteView bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

inline ByteView as_bytes(std::string_view text) { return std::as_bytes(std::span(text)); }

/// Bytes [offset, offset + size) of a file.
struct ByteRange {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;

  std::uint64_t end() const { return offset + size; }
  bool operator==(const ByteRange&) const = default;
};

/// `value` rounded up to a multiple of `alignment`, a power of two. Requires: no overflow.
constexpr std::uint64_t align_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

/// Read-only bytes and the object that keeps them alive. Cheap to copy; safe to pass to other
/// threads.
struct SharedBytes {
  ByteView view;
  std::shared_ptr<const void> owner;

  std::size_t size() const { return view.size(); }
  std::string_view text() const { return as_text(view); }
};

}  // namespace energon
