// The form of encoded samples, for encode_sample() and decode_sample(). Private to energon/worker.

#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon::encoded_form {

// Kinds of values. The first are in the order of Value's alternatives, of which kLazy does not
// cross. kBytesList is a list of which all values are bytes.
enum class Kind : std::uint8_t {
  kBytes,
  kText,
  kInteger,
  kFloat,
  kTensor,
  kList,
  kMapping,
  kLazy,
  kNull,
  kBool,
  kBytesList,
  kTuple,
  kBigInteger
};
static_assert(std::variant_size_v<Value::Base> == static_cast<std::size_t>(Kind::kBigInteger));

/// The kind of a value that is no list of bytes.
inline Kind kind_of(const Value& value) {
  const auto index = static_cast<std::uint8_t>(value.base().index());
  const bool is_behind = index >= static_cast<std::uint8_t>(Kind::kBytesList);
  return static_cast<Kind>(index + (is_behind ? 1 : 0));
}

// Elements of the flat arrays. They have no padding, whose bytes would be undefined.
struct EncodedPayload {
  std::uint64_t offset;  // in the slot
  std::uint64_t size;
  std::uint32_t slot;
  std::uint32_t unused;
};
static_assert(sizeof(EncodedPayload) == 24);

struct EncodedSource {
  std::int64_t index_in_shard;
  ByteRange bytes;
  std::uint64_t checksum;
  std::uint32_t shard;  // its number
  std::uint32_t sample;
};
static_assert(sizeof(EncodedSource) == 40);

}  // namespace energon::encoded_form
