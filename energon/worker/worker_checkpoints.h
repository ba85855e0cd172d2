// The checkpoints that a worker keeps for a stream: when one is stored, and which one answers
// get_checkpoint.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/checkpoint_interval.h"
#include "io/concurrency.h"

namespace energon {

/// due() and store() are called by the worker's main thread, newest_not_after() by its command
/// thread.
class WorkerCheckpoints {
 public:
  /// `ring` must outlive this object. `slots`: number of checkpoints that the ring always keeps; it
  /// keeps older ones as history.
  /// `every_batches`: as in CheckpointInterval.
  WorkerCheckpoints(CheckpointWriter& ring, std::size_t slots,
                    std::optional<std::int64_t> every_batches)
      : ring_(ring), slots_(slots), interval_(every_batches) {}

  /// See CheckpointInterval::due().
  CheckpointDue due(const MadeBatch& batch) { return interval_.due(batch); }

  /// The index of the checkpoint that will be the oldest of those always kept once another one is
  /// stored; nullopt while there are fewer. Called by the worker's main thread.
  std::optional<std::uint64_t> oldest_after_store() const;

  /// Stores `checkpoint` in the ring. `begin` is when the worker began to make
  /// it.
  void store(const SavableDatasetCheckpoint& checkpoint,
             std::chrono::steady_clock::time_point begin = std::chrono::steady_clock::now());
  /// Stores the position of `stream`.
  void store(const PositionedDataset& stream);

  /// The index of the newest stored checkpoint that is at most `delivered`; nullopt if there is
  /// none.
  std::optional<std::uint64_t> newest_not_after(std::uint64_t delivered) const;

 private:
  CheckpointWriter& ring_;
  const std::size_t slots_;

  CheckpointInterval interval_;
  ByteWriter writer_;  // reused to avoid allocations

  mutable Mutex mutex_;  // both threads are in this process
  std::deque<std::uint64_t> indexes_ ENERGON_GUARDED_BY(mutex_);  // of the stored ones, ascending
};

}  // namespace energon
