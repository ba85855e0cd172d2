// The last stored position of a stream that runs in the caller's process, the counterpart of a
// worker's checkpoint ring. It is needed because a failed pipeline may have consumed samples that
// it did not deliver, so its own position is too late.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/state/byte_codec.h"
#include "energon/worker/checkpoint_interval.h"

namespace energon {

/// Not thread-safe.
class KeptPosition {
 public:
  /// `start` is the position at which the stream starts or resumes; `every_batches` as in
  /// CheckpointInterval.
  KeptPosition(SavableDatasetCheckpoint start, std::optional<std::int64_t> every_batches)
      : start_(std::move(start)), interval_(every_batches) {}

  /// See CheckpointInterval::due(). There is always room.
  bool due(const MadeBatch& batch) { return interval_.due(batch) != CheckpointDue::kNo; }

  /// Keeps the position of `stream`.
  void keep(const PositionedDataset& stream);

  /// The position of the stream after `delivered` batches: the last stored position and the number
  /// of batches after it.
  SavableDatasetCheckpoint after(std::int64_t delivered) const;

 private:
  const SavableDatasetCheckpoint start_;
  CheckpointInterval interval_;
  ByteWriter kept_;  // encoded; empty: only the start is known
};

}  // namespace energon
