// The checkpoints a worker keeps: when one is stored, and which one answers get_checkpoint.

#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/process/checkpoint_ring.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/checkpoint_interval.h"

namespace energon {

/// due() and store() are for the worker's main thread, newest_not_after() for its command thread.
class WorkerCheckpoints {
 public:
  /// `slots`: checkpoints the ring keeps. `every_batches`: as CheckpointInterval.
  WorkerCheckpoints(CheckpointWriter& ring, std::size_t slots,
                    std::optional<std::int64_t> every_batches)
      : ring_(ring), slots_(slots), interval_(every_batches) {}

  /// As CheckpointInterval::due().
  bool due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch) {
    return interval_.due(index, bytes, is_first_of_epoch);
  }

  /// Stores the position `checkpoint`.
  void store(const SavableDatasetCheckpoint& checkpoint);

  /// Index of the newest stored checkpoint that is not after `delivered` batches.
  std::optional<std::uint64_t> newest_not_after(std::uint64_t delivered) const;

 private:
  CheckpointWriter& ring_;
  const std::size_t slots_;

  CheckpointInterval interval_;
  ByteWriter writer_;  // kept to save an allocation

  mutable std::mutex mutex_;           // guards what follows; both threads are of this process
  std::deque<std::uint64_t> indexes_;  // of the stored checkpoints, ascending
};

}  // namespace energon
