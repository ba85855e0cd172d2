// The reference to a slot of the arena in a ring unit: docs/formats/shared_memory.md, "Slot
// reference".

#pragma once

#include <cstdint>
#include <type_traits>

namespace energon {

/// Trivially copyable; copied into and out of ring units by memcpy. The parent checks it against
/// the bounds of the arena before use.
struct SlotReference {
  std::uint64_t offset = 0;      ///< of the first byte, within the arena; page-aligned
  std::uint64_t size_bytes = 0;  ///< of the payload
  std::uint32_t slot = 0;        ///< slot number in the worker's arena
  std::uint32_t tag = 0;         ///< number of the publication of that slot

  bool operator==(const SlotReference&) const = default;
};

static_assert(sizeof(SlotReference) == 24 && std::is_trivially_copyable_v<SlotReference>);

}  // namespace energon
