// A pipeline with its position in the logical shard: the number of batches emitted, and the current
// epoch.
//
// This class drives pipelines both in a worker and in the caller's process, so both save and
// restore in the same way.
//
// fit_state() checks that a saved state belongs to the pipelines of a loader before any of it is
// applied.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/order/worker_config.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"

namespace energon {

/// Not thread-safe.
class PositionedDataset {
 public:
  explicit PositionedDataset(std::unique_ptr<Dataset> dataset) : dataset_(std::move(dataset)) {}

  /// Continues from `checkpoint` as if its batches had been emitted here: applies its state, skips
  /// `offset` batches, then moves past ended epochs until `epoch`. Reads no data unless
  /// Dataset::skip() does. `batch_size`: samples per batch of the batches that the checkpoint
  /// counts, if it differs from that of the pipeline. Throws Error: kMismatch if the logical shard
  /// is shorter than the checkpoint requires, or if an epoch that should have ended continues;
  /// those of Dataset::skip_batches(). Periodically reports progress to `monitor`.
  void restore(const SavableDatasetCheckpoint& checkpoint, std::int64_t epoch,
               std::optional<std::int64_t> batch_size = std::nullopt,
               PipelineMonitor& monitor = no_monitor());

  /// Returns the next batch of `epoch`, with its place prepended to its restore key, or nullopt at
  /// the end of the epoch. Begins `epoch` if it is later than the current epoch. Requires in that
  /// case: next() has returned the end of the current epoch.
  std::optional<Sample> next(int logical_shard, std::int64_t epoch);

  /// The position after the batches emitted so far; offset 0.
  SavableDatasetCheckpoint checkpoint() const;

  std::int64_t index() const { return index_; }  ///< batches emitted, in all epochs
  std::int64_t epoch() const { return epoch_; }
  Dataset& dataset() { return *dataset_; }
  const Dataset& dataset() const { return *dataset_; }

 private:
  std::int64_t skip(std::int64_t count, std::optional<std::int64_t> batch_size,
                    PipelineMonitor& monitor);
  void next_epoch();

  const std::unique_ptr<Dataset> dataset_;
  std::int64_t index_ = 0;
  std::int64_t epoch_ = 0;
};

/// Makes the pipeline of `context` and restores it to `checkpoint`, in `epoch`. Throws what the
/// factory throws, and what PositionedDataset::restore() throws, with the logical shard.
std::unique_ptr<PositionedDataset> restored_pipeline(const PipelineFactory& make_pipeline,
                                                     const PipelineContext& context,
                                                     const SavableDatasetCheckpoint& checkpoint,
                                                     std::int64_t epoch);

/// Returns `state`, adapted to the loader whose state_config() is `expected`. The micro batch size
/// may change only if batching is the last stage. By default the new size must divide the old one
/// and the loader must have workers, as in Energon; with logical shards set by the user any size
/// fits. Throws Error (kMismatch) that lists all differences and what would fit. Does not change
/// `state`.
SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config);

}  // namespace energon
