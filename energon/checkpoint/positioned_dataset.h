// A pipeline with its place in the stream: how many batches it emitted, and in which epoch it is.
//
// The same object drives a pipeline in a worker and in the caller's process, so both save and
// restore by one rule.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/stage/dataset.h"

namespace energon {

/// Not thread-safe.
class PositionedDataset {
 public:
  explicit PositionedDataset(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}

  /// Continues from `checkpoint` as if its batches had been emitted here: its state is taken over,
  /// `offset` batches are passed over on references, then epochs that ended are left behind until
  /// `epoch` is reached. Nothing is read. Throws Error (kMismatch) if the stream is shorter than
  /// the checkpoint says.
  void restore(const SavableDatasetCheckpoint& checkpoint, std::int64_t epoch);

  /// The next batch of epoch `epoch`, with its place prepended to its restore key; nothing at the
  /// end of the epoch. Begins the epoch if that is not the one before. Requires: then next()
  /// returned the end of the epoch before.
  std::optional<Sample> next(int logical_shard, std::int64_t epoch);

  /// The position after the batches emitted so far; offset 0.
  SavableDatasetCheckpoint checkpoint() const;

  std::int64_t index() const { return index_; }  ///< batches emitted ever
  std::int64_t epoch() const { return epoch_; }
  Dataset& dataset() { return *dataset_; }
  const Dataset& dataset() const { return *dataset_; }

 private:
  void next_epoch();

  const std::unique_ptr<Dataset> dataset_;
  std::int64_t index_ = 0;
  std::int64_t epoch_ = 0;
};

}  // namespace energon
