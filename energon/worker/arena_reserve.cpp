#include "energon/worker/arena_reserve.h"

#include <algorithm>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

ChannelOptions fit_into(ChannelOptions channel, const AddressSpace& space, int workers) {
  constexpr std::uint64_t kLeastLimit = std::uint64_t{1} << 20;
  constexpr std::uint32_t kFewCheckpoints = 2;
  ArenaOptions& arena = channel.arena;
  arena.limit_bytes = std::min(arena.limit_bytes, physical_memory_bytes());
  const std::uint64_t share = std::min(space.left_bytes / 2 / static_cast<std::uint64_t>(workers),
                                       space.largest_file_bytes);
  if (channel_footprint(channel) > share) {
    // With fewer checkpoints a worker waits for the parent more often.
    channel.checkpoints.slots = std::min(channel.checkpoints.slots, kFewCheckpoints);
    channel.checkpoints.history_slots = 0;
    channel.checkpoints.history_bytes = 0;
  }
  const std::uint64_t all = channel_footprint(channel);
  if (all <= share) {
    return channel;
  }
  const std::uint64_t rest = all - arena_footprint(arena.limit_bytes);
  const std::uint64_t lowest = std::min(arena.limit_bytes, kLeastLimit);
  while (rest + least_arena_footprint(arena.limit_bytes) > share) {
    if (arena.limit_bytes == lowest) {
      throw Error(
          ErrorCode::kResourceExhausted,
          fmt::format("the limits of this process (ulimit -v, -f) leave {} bytes of address space "
                      "to each of {} workers, which needs at least {} (sparse; {} of them are for "
                      "checkpoints and messages): raise the limits, or lower num_workers "
                      "(--num-workers) or checkpoint_slot_bytes (--checkpoint-slot-mib)",
                      share, workers, rest + least_arena_footprint(lowest), rest));
    }
    arena.limit_bytes = std::max(arena.limit_bytes / 2, lowest);
  }
  arena.reserve_bytes = share - rest;
  arena.keep_free_bytes = std::min(arena.keep_free_bytes, arena.limit_bytes / 2);
  return channel;
}

}  // namespace energon
