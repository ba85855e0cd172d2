// The checkpoints of a rank's logical shards that are kept in the trainer's process: those of
// pipelines that run in it, and those that workers left when they ended.
//
// Together with the rings of running workers they lead back to every batch that the rank can go
// back to. For each logical shard the checkpoints have no gaps: the position after some batches is
// the newest checkpoint not after them, and the number of batches since. So only the oldest ones
// are ever given up.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/worker_checkpoints.h"
#include "io/concurrency.h"

namespace energon {

/// Thread-safe.
class CheckpointHistory {
 public:
  /// `bytes_per_logical_shard`: maximum size of the checkpoints of a logical shard. The newest two
  /// are kept whatever their size: of a batch that is not delivered yet, and the one before it.
  explicit CheckpointHistory(std::uint64_t bytes_per_logical_shard)
      : bytes_per_logical_shard_(bytes_per_logical_shard) {}

  /// Forgets everything. Logical shard i begins at `initial_checkpoints[i]`.
  void begin(std::span<const SavableDatasetCheckpoint> initial_checkpoints);

  /// Adds a checkpoint of logical shard `local_index`, which is not older than the last one.
  /// Returns its size.
  std::uint64_t add(std::size_t local_index, const SavableDatasetCheckpoint& checkpoint);
  /// The same, encoded. Throws Error (kCorruptData) if the bytes are too short.
  void add(std::size_t local_index, std::string bytes);

  /// Forgets what is only needed for positions of logical shard `local_index` before `position`.
  void forget_before(std::size_t local_index, const CheckpointPlace& position);
  /// Forgets the checkpoints of logical shard `local_index` that do not lead to `position`.
  void forget_after(std::size_t local_index, const CheckpointPlace& position);
  /// Forgets all checkpoints of logical shard `local_index`.
  void forget(std::size_t local_index);

  struct Entry {
    CheckpointPlace place;
    std::string bytes;  ///< the encoded checkpoint
  };
  /// The newest checkpoint of logical shard `local_index` that leads to `position`; nullopt if
  /// there is none.
  std::optional<Entry> newest(std::size_t local_index, const CheckpointPlace& position) const;

  /// The place of the oldest checkpoint of logical shard `local_index`; nullopt if there is none.
  std::optional<CheckpointPlace> oldest(std::size_t local_index) const;

 private:
  struct LogicalShard {
    std::deque<Entry> entries;  // in the order of their places; of equal ones the newer one is last
    std::uint64_t bytes = 0;
  };

  void add_to(LogicalShard& logical_shard, Entry checkpoint) const ENERGON_REQUIRES(mutex_);

  const std::uint64_t bytes_per_logical_shard_;
  mutable Mutex mutex_;
  std::vector<LogicalShard> logical_shards_ ENERGON_GUARDED_BY(mutex_);
  ByteWriter writer_ ENERGON_GUARDED_BY(mutex_);  // reused to avoid allocations
};

// When the position of a logical shard that runs in the caller's process is stored: the counterpart
// of a worker's checkpoints. It is needed because a failed pipeline may have consumed samples that
// it did not deliver, so its own position is too late, and because the positions before the last
// one can be asked for.

/// Not thread-safe.
class LocalCheckpoints {
 public:
  /// Positions of logical shard `local_index` go to `history`, which must outlive
  /// this object. `every_batches`: as in CheckpointInterval.
  LocalCheckpoints(CheckpointHistory& history, std::size_t local_index,
                   std::optional<std::int64_t> every_batches)
      : history_(history), local_index_(local_index), interval_(every_batches) {}

  /// See CheckpointInterval::due(). There is always room.
  bool due(const ProducedBatch& batch) { return interval_.due(batch) != CheckpointDue::kNo; }

  /// Keeps the position of logical shard `local_index`.
  void keep(const PositionedDataset& pipeline);

 private:
  CheckpointHistory& history_;
  const std::size_t local_index_;
  CheckpointInterval interval_;
};

}  // namespace energon
