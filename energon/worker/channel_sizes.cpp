#include "energon/worker/channel_sizes.h"

#include <algorithm>

#include <fmt/format.h>

#include "energon/worker/worker_checkpoints.h"
#include "io/concurrency.h"
#include "io/error.h"

namespace energon {
namespace {

// Enough that neither side sleeps for each batch, even if a batch is one small sample.
constexpr std::int64_t kMostSmallBatches = 256;

// Checkpoints of a logical shard: one per checkpoint interval of the batches ahead, so that a
// worker rarely waits for the parent before it stores one, and one to start from.
std::int64_t checkpoint_slots(const LoaderOptions& options, std::int64_t logical_shards) {
  if (options.n_checkpoints) {
    return std::max(*options.n_checkpoints, 2);
  }
  if (options.prefetch_factor) {
    return *options.prefetch_factor + 1;
  }
  return kMostSmallBatches / CheckpointInterval::kMostBatches /
             std::max<std::int64_t>(logical_shards, 1) +
         2;
}

}  // namespace

std::uint64_t history_bytes_per_logical_shard(const LoaderOptions& options) {
  return options.checkpoint_history == 0
             ? 0
             : options.checkpoint_history_bytes /
                   static_cast<std::uint64_t>(options.worker_config.logical_shards_per_rank());
}

std::int64_t most_batches_ahead(const LoaderOptions& options) {
  return options.prefetch_factor.value_or(kMostSmallBatches);
}

ChannelOptions channel_options(const LoaderOptions& options, int worker) {
  const WorkerConfig& config = options.worker_config;
  const std::int64_t logical_shards =
      share_of(config.logical_shards_per_rank(), worker, config.workers_per_rank());
  ChannelOptions channel;
  channel.prefetch_units = static_cast<std::uint64_t>(most_batches_ahead(options));
  channel.prefetch_bytes = options.prefetch_factor ? 0 : options.prefetch_bytes;
  channel.parent_spins = usable_cpus() > config.num_workers;
  channel.checkpoint_rings = static_cast<std::uint64_t>(logical_shards);
  channel.checkpoints.slots = static_cast<std::uint32_t>(checkpoint_slots(options, logical_shards));
  channel.checkpoints.slot_bytes = options.checkpoint_slot_bytes;
  channel.checkpoints.history_slots =
      static_cast<std::uint32_t>(std::min(options.checkpoint_history, kMostHistoryCheckpoints));
  channel.checkpoints.history_bytes = history_bytes_per_logical_shard(options);
  channel.arena.limit_bytes = options.arena_limit_bytes;
  channel.arena.keep_free_bytes = options.arena_limit_bytes / 2;
  // Ends before the parent's timeout, so that the error is about memory and not about time.
  channel.arena.starvation_limit = std::min(options.starvation_limit, options.timeout / 2);
  return channel;
}

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
                      "for each of {} workers, which needs at least {} (sparse; {} of them for "
                      "checkpoints and messages): raise the limits, or lower num_workers "
                      "or checkpoint_slot_bytes",
                      share, workers, rest + least_arena_footprint(lowest), rest));
    }
    arena.limit_bytes = std::max(arena.limit_bytes / 2, lowest);
  }
  arena.reserve_bytes = share - rest;
  arena.keep_free_bytes = std::min(arena.keep_free_bytes, arena.limit_bytes / 2);
  return channel;
}

}  // namespace energon
