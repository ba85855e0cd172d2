// The last kept position of a stream that runs in the caller's process, as a worker keeps one in
// its checkpoint ring: a pipeline that failed stands behind what it took in and did not deliver.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "energon/checkpoint/loader_state.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/checkpoint_interval.h"

namespace energon {

/// Not thread-safe.
class KeptPosition {
 public:
  /// `start` is where the stream (re)starts; `every_batches` as CheckpointInterval.
  KeptPosition(SavableDatasetCheckpoint start, std::optional<std::int64_t> every_batches)
      : start_(std::move(start)), interval_(every_batches) {}

  /// As CheckpointInterval::due().
  bool due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch) {
    return interval_.due(index, bytes, is_first_of_epoch);
  }

  void keep(const SavableDatasetCheckpoint& checkpoint);

  /// Where the stream stands after `delivered` batches: at the last position that was kept, and so
  /// many batches after it.
  SavableDatasetCheckpoint after(std::int64_t delivered) const;

 private:
  const SavableDatasetCheckpoint start_;
  CheckpointInterval interval_;
  ByteWriter kept_;  // encoded; empty: nothing but the start
};

}  // namespace energon
