// Kinds of values in the byte forms of states: the place of the type in StateValue. Frozen: append,
// never renumber. Private to state.cpp and state_structures.cpp.

#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "energon/state/byte_codec.h"
#include "energon/state/state.h"

namespace energon {

inline void write_kind(ByteWriter& writer, const StateValue& value) {
  writer.u8(static_cast<std::uint8_t>(value.index()));
}

/// Returns a value of the kind that follows, 0 or empty. Throws Error (kCorruptData).
inline StateValue read_kind(ByteReader& reader) {
  static_assert(std::variant_size_v<StateValue> == 3);
  const std::uint8_t kind = reader.u8();
  if (kind == 0) {
    return std::int64_t{0};
  }
  if (kind == 1) {
    return std::string();
  }
  if (kind == 2) {
    return std::vector<std::int64_t>();
  }
  reader.fail("unknown kind of field");
}

}  // namespace energon
