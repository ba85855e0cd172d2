// Helpers of both ends of a ring: checks of the header, and the poll. Private to this folder.

#pragma once

#include <cstdint>

#include "energon/process/message_ring.h"
#include "energon/process/ring_layout.h"

namespace energon {

/// Throws Error (kCorruptData): `field` has `value`, but must be in [low, high].
[[noreturn]] void throw_corrupt(const char* field, std::uint64_t value, std::uint64_t low,
                                std::uint64_t high);

/// Bytes that a unit takes in the ring, header and alignment included.
std::uint64_t unit_stride(std::uint64_t size_bytes);

/// Decodes a `closed` word.
bool is_closed(std::uint32_t word);

RingHeader* header_of(const SharedRange& range);

/// Checks the header of the ring in `range` and returns the capacity, which an end uses from then
/// on.
std::uint64_t checked_capacity(const SharedRange& range);

/// Waits on `doorbell`. Returns true if the peer is gone; otherwise the doorbell fired or the
/// deadline passed.
bool poll_doorbell(const Doorbell& doorbell, const Wait& wait, bool& timed_out);

}  // namespace energon
