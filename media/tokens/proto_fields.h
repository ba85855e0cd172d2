// Walks over the fields of a message of Protocol Buffers, in their wire format
// (protobuf.dev/programming-guides/encoding). Internal to media/tokens.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "io/bytes.h"

namespace energon {

enum class WireType : std::uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

struct ProtoField {
  std::uint32_t number = 0;
  WireType type = WireType::kVarint;
  std::uint64_t integer = 0;  ///< of kVarint, kFixed32 and kFixed64
  ByteView bytes = {};        ///< of kBytes: a view into the message
  std::size_t offset = 0;     ///< where the field begins in the message
};

/// Borrows the message.
class ProtoFields {
 public:
  explicit ProtoFields(ByteView message) : message_(message) {}

  /// The next field; nothing at the end. Throws Error (kCorruptData) with the offset for a field
  /// that is cut off, of another wire type (groups), or numbered 0.
  std::optional<ProtoField> next();

 private:
  std::uint64_t varint();
  std::uint64_t fixed(std::size_t size);
  ByteView take(std::uint64_t size);

  ByteView message_;
  std::size_t position_ = 0;
};

}  // namespace energon
