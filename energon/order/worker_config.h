// Where a pipeline runs (rank, workers, seeds), and the resulting share of the data.
//
// The samples are divided over logical shards, each with its own pipeline and state. By default
// there is one logical shard per worker of the job, numbered as in Energon (WorkerConfig): the
// logical shard is the global worker id, rank * workers + worker, and its seed is the low 32 bits
// (big-endian) of SHA-1 of "<global worker id>,<seed offset>". If the user sets the number of
// logical shards, rank r has the logical shards l with l mod world_size = r. Workers only run them;
// the order of samples does not depend on the layout (docs/rescaling.md).

#pragma once

#include <cstdint>
#include <optional>

namespace energon {

inline constexpr int kMaxLogicalShards = 1 << 20;
inline constexpr int kMaxWorkers = 4096;  // per rank

/// Which logical shards get one more sample when the number of samples is not a multiple of the
/// number of logical shards.
enum class Division : std::uint8_t {
  kEven,     ///< the first logical shards, so that ranks differ by at most one sample
  kEnergon,  ///< spread by a generalized bit reversal, as in Energon
};

/// A value type; not changed after construction.
struct WorkerConfig {
  /// Data-parallel rank of this process, in [0, world_size).
  int rank = 0;
  /// Number of data-parallel ranks.
  int world_size = 1;
  /// Number of forked workers of this rank. With 0, pipelines run in the caller's process.
  int num_workers = 0;
  /// Changes every seed, and so the order of the data.
  std::int64_t seed_offset = 0;
  /// Number of logical shards of the job: at least one per worker, and a multiple of world_size.
  /// Unset means one per worker.
  std::optional<int> logical_shards = std::nullopt;
  /// Used only with logical_shards; otherwise the division is always kEnergon. Keep kEnergon when
  /// rescaling a job that started with one logical shard per worker.
  Division division = Division::kEven;
  /// Allows a number of logical shards that is not a multiple of world_size. Some ranks then have
  /// one logical shard more than others, and the order of the job's batches depends on the layout;
  /// the order within each logical shard does not.
  bool allow_uneven = false;

  /// Number of processes of this rank that run pipelines: num_workers, or 1 for the caller's.
  int workers_per_rank() const { return num_workers > 0 ? num_workers : 1; }
  int logical_shard_count() const {
    return logical_shards.value_or(world_size * workers_per_rank());
  }
  Division effective_division() const { return logical_shards ? division : Division::kEnergon; }
  /// Number of logical shards of this rank. Their indexes within the rank are 0 … count - 1.
  int logical_shards_per_rank() const;
  /// The number within the job of this rank's logical shard `local_index`.
  int logical_shard(int local_index) const {
    return logical_shards ? rank + local_index * world_size
                          : rank * workers_per_rank() + local_index;
  }
  /// The worker of this rank that runs logical shard `local_index`.
  int worker_of(int local_index) const { return local_index % workers_per_rank(); }

  bool operator==(const WorkerConfig&) const = default;
};

/// A logical shard's place in the job.
struct LogicalShardOwner {
  int rank = 0;
  int local_index = 0;

  bool operator==(const LogicalShardOwner&) const = default;
};

/// The place of `logical_shard` in the job of `config`. Ignores config.rank. Requires: 0 <=
/// logical_shard < config.logical_shard_count().
LogicalShardOwner place_of(int logical_shard, const WorkerConfig& config);

/// Throws Error (kInvalidArgument) that names the field, its value and its range.
void validate(const WorkerConfig& config);

/// Seed of the pipeline of `logical_shard`, equal to Energon's worker_seed().
std::uint32_t worker_seed(int logical_shard, std::int64_t seed_offset);

/// The number of items out of `total` for worker `worker` of `workers`: an even split in which the
/// first workers get one more.
std::int64_t share_of(std::int64_t total, int worker, int workers);

}  // namespace energon
