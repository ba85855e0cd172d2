// Where a pipeline runs: rank, workers, seeds, and which share of the data that gives it.
//
// Numbers follow Energon (WorkerConfig): the global worker id is rank * workers + worker, the seed
// of a worker is the low 32 bits (big-endian) of SHA-1 of "<global worker id>,<seed offset>".

#pragma once

#include <cstdint>

namespace energon {

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

  /// Pipelines of this rank: num_workers, or one in the caller's process.
  int pipelines_per_rank() const { return num_workers > 0 ? num_workers : 1; }
  /// Pipelines of the whole job: the default number of logical shards.
  int logical_shard_count() const { return world_size * pipelines_per_rank(); }
  /// The logical shard that worker `worker` of this rank runs.
  int logical_shard(int worker) const { return rank * pipelines_per_rank() + worker; }

  bool operator==(const WorkerConfig&) const = default;
};

/// Throws Error (kInvalidArgument) that names the field, its value and its range.
void validate(const WorkerConfig& config);

/// Seed of the pipeline of `logical_shard`, as Energon's worker_seed().
std::uint32_t worker_seed(int logical_shard, std::int64_t seed_offset);

/// The part of `total` things that worker `worker` of `workers` gets: an even split, the first ones
/// get one more.
std::int64_t share_of(std::int64_t total, int worker, int workers);

}  // namespace energon
