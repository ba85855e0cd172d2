#include "media/tokens/proto_fields.h"

#include <cstring>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

std::optional<ProtoField> ProtoFields::next() {
  if (position_ == message_.size()) {
    return std::nullopt;
  }
  ProtoField field{.offset = position_};
  const std::uint64_t tag = varint();
  const std::uint64_t number = tag >> 3;
  constexpr std::uint64_t kMaxNumber = (std::uint64_t{1} << 29) - 1;
  if (number < 1 || number > kMaxNumber) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("field number {} at byte {} of a message is not in [1, {}]", number,
                            field.offset, kMaxNumber));
  }
  field.number = static_cast<std::uint32_t>(number);
  field.type = static_cast<WireType>(tag & 7);
  switch (field.type) {
    case WireType::kVarint:
      field.integer = varint();
      return field;
    case WireType::kFixed64:
      field.integer = fixed(8);
      return field;
    case WireType::kBytes:
      field.bytes = take(varint());
      return field;
    case WireType::kFixed32:
      field.integer = fixed(4);
      return field;
  }
  throw Error(ErrorCode::kCorruptData,
              fmt::format("field {} at byte {} of a message has wire type {}, which is none of "
                          "values",
                          field.number, field.offset, tag & 7));
}

std::uint64_t ProtoFields::varint() {
  constexpr int kMostBits = 64;
  std::uint64_t value = 0;
  for (int shift = 0; shift < kMostBits; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(take(1)[0]);
    value |= (byte & 0x7f) << shift;
    if (byte < 0x80) {
      return value;
    }
  }
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the integer before byte {} of a message has more than 64 bits", position_));
}

// Little-endian.
std::uint64_t ProtoFields::fixed(std::size_t size) {
  const ByteView bytes = take(size);
  std::uint64_t value = 0;
  for (std::size_t i = size; i-- > 0;) {
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  }
  return value;
}

ByteView ProtoFields::take(std::uint64_t size) {
  const std::size_t left = message_.size() - position_;
  if (size > left) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("a message ends at byte {}, a value at byte {} has {} bytes",
                            message_.size(), position_, size));
  }
  const ByteView bytes = message_.subspan(position_, static_cast<std::size_t>(size));
  position_ += bytes.size();
  return bytes;
}

}  // namespace energon
