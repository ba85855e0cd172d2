// When a checkpoint of a logical shard is due (CheckpointInterval), and which checkpoints a worker
// keeps for each of its logical shards (WorkerCheckpoints). The trainer's process keeps others:
// energon/loader/checkpoint_history.h.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/process/worker_channel.h"
#include "energon/worker/loader_options.h"
#include "io/byte_codec.h"
#include "io/concurrency.h"

namespace energon {

/// A batch that was made, as CheckpointInterval sees it.
struct ProducedBatch {
  std::int64_t index =
      0;  ///< batches of the logical shard up to and including this one, in all epochs
  std::uint64_t bytes = 0;  ///< its size
  bool is_first_of_epoch = false;
  /// The time that a replay of the batch would take: the time that the batch took, or zero if the
  /// pipeline skips references (Dataset::skip_makes_items()).
  std::chrono::nanoseconds replay_time{0};
};

enum class CheckpointDue : std::uint8_t {
  kNo,
  kIfRoom,  ///< shortens a replay; store it only if there is room without waiting
  kYes,
};

/// Decides how often the state of a logical shard is stored. Reads no clock: the caller measures.
/// Not thread-safe.
class CheckpointInterval {
 public:
  /// After this many batches a checkpoint is due even if they are small.
  static constexpr std::int64_t kMostBatches = 32;
  /// A replay that takes less time than this is not worth a checkpoint.
  static constexpr std::chrono::milliseconds kLeastReplay{100};
  /// A replay may take this many times as long as storing a checkpoint, so that storing takes at
  /// most a twentieth of the time.
  static constexpr int kReplayPerStore = 20;

  /// `every_batches`: 0 means after the first batch of each epoch. Unset means as soon as the
  /// batches since the last checkpoint have eight times as many bytes as that checkpoint, and
  /// either 64 KiB or kMostBatches; this is after each batch, unless batches are small or shuffle
  /// buffers are large. If there is room, also as soon as a replay would take at least kLeastReplay
  /// and kReplayPerStore times as long as storing that checkpoint took.
  explicit CheckpointInterval(std::optional<std::int64_t> every_batches)
      : every_batches_(every_batches) {}

  /// Whether a checkpoint is due after `batch`. Call it once per batch.
  CheckpointDue due(const ProducedBatch& batch);

  /// Records that a checkpoint of `size_bytes` was stored after `index` batches, which took
  /// `store_time`.
  void stored(std::int64_t index, std::uint64_t size_bytes, std::chrono::nanoseconds store_time);

 private:
  bool is_worth_its_bytes(std::int64_t batches) const;
  bool is_worth_its_time() const;

  const std::optional<std::int64_t> every_batches_;

  // About the last checkpoint.
  std::int64_t last_index_ = 0;
  std::uint64_t last_size_ = 0;
  std::chrono::nanoseconds store_time_{0};
  // About the batches since then.
  std::uint64_t bytes_moved_ = 0;
  std::chrono::nanoseconds replay_time_{0};
};

/// The checkpoints that a worker keeps for a logical shard. The worker's main thread calls due()
/// and store(), its command thread newest_not_after(), to answer get_checkpoint.
class LogicalShardCheckpoints {
 public:
  /// `ring` must outlive this object. `slots`: number of checkpoints that the ring always keeps; it
  /// keeps older ones as history.
  /// `every_batches`: as in CheckpointInterval.
  LogicalShardCheckpoints(CheckpointWriter& ring, std::size_t slots,
                          std::optional<std::int64_t> every_batches)
      : ring_(ring), slots_(slots), interval_(every_batches) {}

  /// See CheckpointInterval::due().
  CheckpointDue due(const ProducedBatch& batch) { return interval_.due(batch); }

  /// The index of the checkpoint that will be the oldest of those always kept once another one is
  /// stored; nullopt while there are fewer. Called by the worker's main thread.
  std::optional<std::uint64_t> oldest_after_store() const;

  /// Stores `checkpoint` in the ring. `begin` is the time at which the worker began to make it.
  void store(const SavableDatasetCheckpoint& checkpoint,
             std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now());
  /// Stores the position of logical shard `local_index`.
  void store(const PositionedDataset& pipeline);

  /// The index of the newest stored checkpoint that is at most `delivered`; nullopt if there is
  /// none.
  std::optional<std::uint64_t> newest_not_after(std::uint64_t delivered) const;

 private:
  CheckpointWriter& ring_;
  const std::size_t slots_;

  CheckpointInterval interval_;
  ByteWriter writer_;  // reused to avoid allocations

  mutable Mutex mutex_;  // both threads are in this process
  std::deque<std::uint64_t> indexes_
      ENERGON_GUARDED_BY(mutex_);  // of the stored checkpoints, ascending
};

/// The checkpoints of all logical shards of a worker, by the logical shard's number in the rank.
/// Thread rules as those of LogicalShardCheckpoints.
class WorkerCheckpoints {
 public:
  /// `channel` must outlive this object.
  WorkerCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options, int worker);

  LogicalShardCheckpoints& of(std::size_t local_index) {
    return logical_shards_.at((local_index - worker_) / workers_);
  }
  const LogicalShardCheckpoints& of(std::size_t local_index) const {
    return logical_shards_.at((local_index - worker_) / workers_);
  }

 private:
  const std::size_t worker_;
  const std::size_t workers_;
  std::deque<LogicalShardCheckpoints> logical_shards_;  // neither copied nor moved
};

}  // namespace energon
