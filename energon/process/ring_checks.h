// What both ends of a ring need: checks of the header, and the poll. Private to this folder.

#pragma once

#include <cstdint>

#include "energon/process/message_ring.h"
#include "energon/process/ring_layout.h"

namespace energon {

/// Throws Error (kCorruptData): `field` has `value`, but must be in [low, high].
[[noreturn]] void throw_corrupt(const char* field, std::uint64_t value, std::uint64_t low,
                                std::uint64_t high);

/// Bytes of a unit with its header.
std::uint64_t unit_stride(std::uint64_t size_bytes);

/// Reads a `closed` word.
bool is_closed(std::uint32_t word);

RingHeader* header_of(const SharedRange& range);

/// Capacity of the ring in `range`; what an end relies on from then on.
std::uint64_t checked_capacity(const SharedRange& range);

/// True if the peer is gone; otherwise the doorbell fired or the deadline passed.
bool poll_doorbell(const Doorbell& doorbell, const Wait& wait, bool& timed_out);

}  // namespace energon
