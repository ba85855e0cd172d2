#include "energon/process/arena_layout.h"

#include <algorithm>
#include <bit>

#include <fmt/format.h>

#include "energon/process/shared_memory.h"
#include "io/error.h"

namespace energon {
namespace {

// The smallest slot is one page.
std::size_t min_shift() { return static_cast<std::size_t>(std::countr_zero(page_bytes())); }

std::uint64_t slot_bytes_of(std::size_t size_class) {
  return std::uint64_t{1} << (size_class + min_shift());
}

std::size_t class_count(std::uint64_t limit_bytes) { return size_class_of(limit_bytes) + 1; }

// A slot in use was charged more than half its size, so no more than this many fit in the limit.
std::uint64_t most_slots(std::uint64_t limit_bytes, std::size_t size_class) {
  return std::min(limit_bytes / (slot_bytes_of(size_class) / 2) + 1, 2 * kMaxSlotsHeld);
}

void check_arena_limit(std::uint64_t limit_bytes) {
  if (limit_bytes < page_bytes() || limit_bytes > kMaxArenaLimitBytes) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("arena_limit_bytes is {} bytes, must be from {} to {}", limit_bytes,
                            page_bytes(), kMaxArenaLimitBytes));
  }
}

}  // namespace

std::size_t size_class_of(std::uint64_t size_bytes) {
  const auto shift =
      static_cast<std::size_t>(std::bit_width(std::max<std::uint64_t>(size_bytes, 1) - 1));
  return std::max(shift, min_shift()) - min_shift();
}

// Without a reserve each size gets all slots that can be needed. With one, it gets one slot and an
// equal share of the rest of the reserve.
std::vector<SizeClassLayout> size_class_layouts(std::uint64_t limit_bytes,
                                                std::uint64_t reserve_bytes) {
  const std::uint64_t least = least_arena_footprint(limit_bytes);
  if (reserve_bytes != 0 && reserve_bytes < least) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("an arena of limit {} needs at least {} bytes of address space, not {}",
                            limit_bytes, least, reserve_bytes));
  }
  std::vector<SizeClassLayout> layouts(class_count(limit_bytes));
  std::uint64_t base = 0;
  std::uint64_t left = reserve_bytes - (reserve_bytes != 0 ? least : 0);
  for (std::size_t c = 0; c < layouts.size(); ++c) {
    const std::uint64_t slot_bytes = slot_bytes_of(c);
    std::uint64_t slots = most_slots(limit_bytes, c);
    if (reserve_bytes != 0) {
      slots = std::min(slots, 1 + left / (layouts.size() - c) / slot_bytes);
      left -= (slots - 1) * slot_bytes;
    }
    layouts[c] = {base, slot_bytes, slots};
    base += slots * slot_bytes;
  }
  return layouts;
}

std::uint64_t arena_footprint(std::uint64_t limit_bytes, std::uint64_t reserve_bytes) {
  const SizeClassLayout largest = size_class_layouts(limit_bytes, reserve_bytes).back();
  return largest.base + largest.slot_limit * largest.slot_bytes;
}

std::uint64_t least_arena_footprint(std::uint64_t limit_bytes) {
  check_arena_limit(limit_bytes);
  return ((std::uint64_t{1} << class_count(limit_bytes)) - 1) << min_shift();
}

}  // namespace energon
