// The checkpoints of a rank's logical shards that the trainer's process keeps: of pipelines that
// run in this process, and of workers that have ended.
//
// Together with the rings of running workers, they cover every position that the rank can return
// to. The checkpoints of a logical shard have no gaps: each position is the newest checkpoint not
// after it, plus the number of batches since. So only the oldest checkpoints are ever dropped.

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
#include "energon/worker/worker_checkpoints.h"
#include "io/byte_codec.h"
#include "io/concurrency.h"

namespace energon {

/// Thread-safe.
class CheckpointHistory {
 public:
  /// `bytes_per_logical_shard` limits the size of the checkpoints of a logical shard. The newest
  /// two are always kept: that of a batch not yet delivered, and the one before it.
  explicit CheckpointHistory(std::uint64_t bytes_per_logical_shard)
      : bytes_per_logical_shard_(bytes_per_logical_shard) {}

  /// Forgets everything. Logical shard i begins at `initial_checkpoints[i]`.
  void begin(std::span<const SavableDatasetCheckpoint> initial_checkpoints);

  /// Adds a checkpoint of logical shard `local_index` and returns its size. Requires: it is not
  /// older than the last one.
  std::uint64_t add(std::size_t local_index, const SavableDatasetCheckpoint& checkpoint);
  /// The same, encoded. Throws Error (kCorruptData) if the bytes are too short.
  void add(std::size_t local_index, std::string bytes);

  /// Forgets checkpoints that only positions of logical shard `local_index` before `position` need.
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
    std::deque<Entry>
        entries;  // in the order of their places; for equal places, the newest is last
    std::uint64_t bytes = 0;
  };

  void add_to(LogicalShard& logical_shard, Entry checkpoint) const ENERGON_REQUIRES(mutex_);

  const std::uint64_t bytes_per_logical_shard_;
  mutable Mutex mutex_;
  std::vector<LogicalShard> logical_shards_ ENERGON_GUARDED_BY(mutex_);
  ByteWriter writer_ ENERGON_GUARDED_BY(mutex_);  // reused to avoid allocations
};

// Stores the positions of a logical shard that runs in the caller's process: the counterpart of a
// worker's checkpoints. Needed because a failed pipeline may have consumed samples that it did not
// deliver, so that its own position is too late, and for positions before the last one.

/// Not thread-safe.
class LocalCheckpoints {
 public:
  /// Positions of logical shard `local_index` go to `history`, which must outlive this object.
  /// `every_batches`: as in CheckpointInterval.
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
