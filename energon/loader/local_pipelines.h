// The logical shards of a rank that has no workers: pipelines in the caller's process.
//
// A logical shard that starts at a saved position gets its pipeline at its first read, so that a
// rank with thousands of logical shards resumes immediately. Until then its position is its start
// position. The states were checked before (fit_state()).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/loader/checkpoint_history.h"
#include "energon/loader/failure_log.h"
#include "energon/process/wait.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/dataset.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "energon/worker/statistics_block.h"

namespace energon {

/// For one thread at a time.
class LocalPipelines {
 public:
  /// Failures that policies allow go to `failures`, checkpoints to `history`. The pipelines call
  /// `check` before each call of a function. All arguments must outlive the logical shards.
  LocalPipelines(const PipelineFactory& make_pipeline, const LoaderOptions& options,
                 FailureLog& failures, CheckpointHistory& history, WaitCheck& check);

  /// Starts each logical shard at its position. Borrows the positions until stop(). Throws what the
  /// factory throws, and Error (kMismatch).
  void start(std::span<const SavableDatasetCheckpoint> initial_checkpoints);
  void stop() { logical_shards_.clear(); }
  bool running() const { return !logical_shards_.empty(); }

  /// The next batch of logical shard `local_index` in the epoch of `turn`, its next turn; nullopt
  /// at the end of that epoch. Throws what the pipeline throws; Error (kMismatch) with the logical
  /// shard if it cannot be restored.
  std::optional<Sample> read(std::size_t local_index, const Turn& turn);

  /// The position of each logical shard after the batches that read() returned. Requires: read()
  /// has not thrown since start(); otherwise a pipeline may have consumed more than it delivered.
  std::vector<SavableDatasetCheckpoint> positions() const;

  WorkerStatistics statistics() const { return read_statistics(*counted_); }

 private:
  // Both are null until the logical shard is first read.
  struct LogicalShard {
    std::unique_ptr<PositionedDataset> pipeline;
    std::optional<LocalCheckpoints> checkpoints;
  };

  void make(std::size_t local_index, std::int64_t epoch);
  void take_reports();
  void keep_if_due(LogicalShard& logical_shard, const Sample* batch, bool is_first_of_epoch);

  const PipelineFactory& make_pipeline_;
  const LoaderOptions& options_;
  FailureLog& failures_;
  CheckpointHistory& history_;
  WaitCheck& check_;
  HeapBufferPool memory_;
  const std::shared_ptr<BatchMemory> batch_memory_ = std::make_shared<BatchMemory>(memory_);
  const std::unique_ptr<StatisticsBlock> counted_;
  LoaderMonitor monitor_{*counted_};
  CpuShare cpu_;  // CPU time of the pipelines

  std::span<const SavableDatasetCheckpoint> initial_checkpoints_;
  std::shared_ptr<LeafReaders> readers_;
  std::vector<LogicalShard> logical_shards_;
  std::uint64_t drops_ = 0;  // drops covered by stored positions
};

}  // namespace energon
