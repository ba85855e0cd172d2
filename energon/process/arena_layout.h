// The address space of an arena, divided into slots.
//
// Slot sizes are powers of two, one page or more. Each size has a part of its own, and the parts
// lie one after the other. Worker and parent compute the same layout from the same options.
// docs/formats/shared_memory.md describes it.

#pragma once

#include <cstdint>
#include <vector>

namespace energon {

/// Maximum `limit_bytes` of an arena.
inline constexpr std::uint64_t kMaxArenaLimitBytes = std::uint64_t{1} << 40;

/// Maximum number of slots outside the worker at one time. The return ring has room for all of
/// them, so returning a slot never waits.
inline constexpr std::uint64_t kMaxSlotsHeld = std::uint64_t{1} << 15;
/// Capacity of the return ring.
inline constexpr std::uint64_t kReturnRingBytes = std::uint64_t{2} << 20;

/// Address space of an arena with this limit, in bytes: a multiple of the limit, because each slot
/// size has its own part. At most `reserve_bytes`, unless that is 0. Throws Error
/// (kInvalidArgument) for a limit below one page or above 2^40, or a reserve below
/// least_arena_footprint().
std::uint64_t arena_footprint(std::uint64_t limit_bytes, std::uint64_t reserve_bytes = 0);

/// Minimum address space of an arena with this limit, in bytes: one slot of each size, two to four
/// times the limit.
std::uint64_t least_arena_footprint(std::uint64_t limit_bytes);

/// The part of an arena for the slots of one size.
struct SizeClassLayout {
  std::uint64_t base = 0;  ///< first byte in the arena
  std::uint64_t slot_bytes = 0;
  std::uint64_t slot_limit = 0;  ///< number of slots
};

/// The parts of an arena, smallest slots first. Throws like arena_footprint().
std::vector<SizeClassLayout> size_class_layouts(std::uint64_t limit_bytes,
                                                std::uint64_t reserve_bytes);

/// Position in size_class_layouts() of the smallest slots that hold `size_bytes`; past its end if
/// there are none.
std::size_t size_class_of(std::uint64_t size_bytes);

}  // namespace energon
