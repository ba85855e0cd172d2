#include "energon/order/worker_config.h"

#include <cstdint>
#include <span>

#include <fmt/format.h>

#include "io/error.h"
#include "io/sha.h"

namespace energon {
namespace {

void check_logical_shards(const WorkerConfig& config) {
  const int count = *config.logical_shards;
  const int workers = config.world_size * config.workers_per_rank();
  if (count < workers || count > kMaxLogicalShards) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("logical_shards is {}; with world_size {} and {} workers per rank, it must "
                    "be in [{}, {}]",
                    count, config.world_size, config.num_workers, workers, kMaxLogicalShards));
  }
  if (count % config.world_size != 0 && !config.allow_uneven) {
    const int below = count - count % config.world_size;
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("logical_shards is {}, which is not a multiple of world_size {}; set {}, or "
                    "allow an uneven division",
                    count, config.world_size,
                    below >= workers ? fmt::format("{} or {}", below, below + config.world_size)
                                     : fmt::format("{}", below + config.world_size)));
  }
}

}  // namespace

void validate(const WorkerConfig& config) {
  if (config.world_size < 1 || config.world_size > kMaxLogicalShards) {
    throw Error(ErrorCode::kInvalidArgument, fmt::format("world_size is {}, but must be in [1, {}]",
                                                         config.world_size, kMaxLogicalShards));
  }
  if (config.rank < 0 || config.rank >= config.world_size) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("rank is {}, but with world_size {} it must be in [0, {})", config.rank,
                            config.world_size, config.world_size));
  }
  if (config.num_workers < 0 || config.num_workers > kMaxWorkers) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("num_workers is {}, but must be in [0, {}]", config.num_workers, kMaxWorkers));
  }
  if (config.logical_shards) {
    check_logical_shards(config);
  }
}

int WorkerConfig::logical_shards_per_rank() const {
  if (!logical_shards) {
    return workers_per_rank();
  }
  return *logical_shards / world_size + (rank < *logical_shards % world_size ? 1 : 0);
}

LogicalShardOwner place_of(int logical_shard, const WorkerConfig& config) {
  const int divisor = config.logical_shards ? config.world_size : config.workers_per_rank();
  const LogicalShardOwner place{logical_shard / divisor, logical_shard % divisor};
  return config.logical_shards ? LogicalShardOwner{place.local_index, place.rank} : place;
}

std::uint32_t worker_seed(int logical_shard, std::int64_t seed_offset) {
  const std::string text = fmt::format("{},{}", logical_shard, seed_offset);
  const auto digest = sha1(as_bytes(text));
  std::uint32_t last_word = 0;
  for (const std::uint8_t byte : std::span(digest).last<4>()) {
    last_word = last_word << 8U | byte;
  }
  return last_word;
}

std::int64_t share_of(std::int64_t total, int worker, int workers) {
  return total / workers + (worker < total % workers ? 1 : 0);
}

}  // namespace energon
