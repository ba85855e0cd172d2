// The checkpoints a worker keeps: when one is stored, and which one answers a save.

#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>

#include "energon/byte_codec.h"
#include "energon/loader/loader_state.h"
#include "energon/process/checkpoint_ring.h"

namespace energon {

/// due() and store() are for the worker's main thread, newest_not_after() for its command thread.
class WorkerCheckpoints {
 public:
  /// `slots`: checkpoints the ring keeps. `every_batches`: 0 for the first of each epoch, absent
  /// for "as often as the size of the state allows", which is once eight times as many bytes were
  /// sent in batches: after each batch, unless batches are small or shuffle buffers large.
  WorkerCheckpoints(CheckpointWriter& ring, std::size_t slots,
                    std::optional<std::int64_t> every_batches)
      : ring_(ring), slots_(slots), every_batches_(every_batches) {}

  /// Whether a checkpoint is due after `index` batches, the last of which has `bytes` bytes and may
  /// be the first of its epoch. Call it once per batch.
  bool due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch);

  /// Stores the position `checkpoint`.
  void store(const SavableDatasetCheckpoint& checkpoint);

  /// Index of the newest stored checkpoint that is not after `delivered` batches.
  std::optional<std::uint64_t> newest_not_after(std::uint64_t delivered) const;

 private:
  CheckpointWriter& ring_;
  const std::size_t slots_;
  const std::optional<std::int64_t> every_batches_;

  std::int64_t last_index_ = 0;   // of the last checkpoint
  std::uint64_t last_size_ = 0;   // its bytes
  std::uint64_t bytes_sent_ = 0;  // in batches since then
  ByteWriter writer_;             // kept to save an allocation

  mutable std::mutex mutex_;           // guards what follows; both threads are of this process
  std::deque<std::uint64_t> indexes_;  // of the stored checkpoints, ascending
};

}  // namespace energon
