// Where a pipeline runs: rank, workers, seeds, and which share of the data that gives it.
//
// The samples are divided over logical shards, each with its own pipeline and state. By default
// there is one for each worker of the job and numbers follow Energon (WorkerConfig): the logical
// shard is the global worker id, rank * workers + worker, and its seed is the low 32 bits
// (big-endian) of SHA-1 of "<global worker id>,<seed offset>". With a number of logical shards set
// by the user, rank r has those l with l mod world_size = r, workers only run them, and the order
// of samples does not depend on the layout (docs/rescaling.md).

#pragma once

#include <cstdint>
#include <optional>

namespace energon {

inline constexpr int kMaxLogicalShards = 1 << 20;
inline constexpr int kMaxWorkers = 4096;  // of a rank

/// Which logical shards get a sample more when a number of samples is no multiple of theirs.
enum class Division : std::uint8_t {
  kEven,     ///< the first ones: ranks, which have every n-th one, differ by one sample at most
  kEnergon,  ///< those that a bit reversal spreads over ranks of neighbouring ones, as Energon does
};

/// A value; nothing changes it after construction.
struct WorkerConfig {
  /// Data-parallel rank of this process, in [0, world_size).
  int rank = 0;
  /// Number of data-parallel ranks.
  int world_size = 1;
  /// Forked workers of this rank; 0 runs the pipeline in the caller's process.
  int num_workers = 0;
  /// Changes every seed. The same data, another order.
  std::int64_t seed_offset = 0;
  /// Logical shards of the job: at least one for each worker, and a multiple of world_size. Absent:
  /// one for each worker.
  std::optional<int> logical_shards = std::nullopt;
  /// With logical_shards; without, it is always Energon's. A job that began with one logical shard
  /// for each worker keeps that division when it is rescaled.
  Division division = Division::kEven;
  /// Allows a number of logical shards that is no multiple of world_size. Some ranks then have one
  /// more than others, and the order of the job's batches depends on the layout; that of each
  /// logical shard does not.
  bool allow_uneven = false;

  /// Processes of this rank that run pipelines: num_workers, or the caller's.
  int workers_per_rank() const { return num_workers > 0 ? num_workers : 1; }
  int logical_shard_count() const {
    return logical_shards.value_or(world_size * workers_per_rank());
  }
  Division effective_division() const { return logical_shards ? division : Division::kEnergon; }
  /// Logical shards of this rank, called its streams: 0 … count - 1.
  int stream_count() const;
  /// The logical shard that is stream `stream` of this rank.
  int logical_shard(int stream) const {
    return logical_shards ? rank + stream * world_size : rank * workers_per_rank() + stream;
  }
  /// The worker of this rank that runs stream `stream`.
  int worker_of(int stream) const { return stream % workers_per_rank(); }

  bool operator==(const WorkerConfig&) const = default;
};

/// A logical shard's place in the job.
struct StreamPlace {
  int rank = 0;
  int stream = 0;

  bool operator==(const StreamPlace&) const = default;
};

/// Where `logical_shard` is in the job of `config`, whatever its rank. Requires: 0 <= logical_shard
/// < config.logical_shard_count().
StreamPlace place_of(int logical_shard, const WorkerConfig& config);

/// Throws Error (kInvalidArgument) that names the field, its value and its range.
void validate(const WorkerConfig& config);

/// Seed of the pipeline of `logical_shard`, as Energon's worker_seed().
std::uint32_t worker_seed(int logical_shard, std::int64_t seed_offset);

/// The part of `total` things that worker `worker` of `workers` gets: an even split, the first ones
/// get one more.
std::int64_t share_of(std::int64_t total, int worker, int workers);

}  // namespace energon
