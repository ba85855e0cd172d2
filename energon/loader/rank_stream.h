// The batches of one rank, in their order, from its workers or from pipelines in the caller's
// process.
//
// The logical shards of the rank, its streams, give their batches in turn
// (energon/checkpoint/turns.h); one that reached the end of the epoch is passed over until all
// have. The state of the stream is what was delivered: batches that workers made ahead are not in
// it and are made again after a restore. Nor is anything of a next() that failed: a position can be
// saved after any error, and then it is that of the batch before.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/turns.h"
#include "energon/loader/failure_log.h"
#include "energon/loader/worker_group.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/debug_log.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/batch_place.h"
#include "energon/worker/kept_position.h"
#include "energon/worker/loader_monitor.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "energon/worker/thread_times.h"

namespace energon {

/// For one thread at a time.
class RankStream {
 public:
  /// `type` is the loader's name in the debug log.
  RankStream(std::string_view type, PipelineFactory make_pipeline, const LoaderOptions& options);

  /// The next batch; nothing once at the end of each epoch, then the next epoch begins. Whatever a
  /// pipeline throws becomes an Error (pipeline_failure()); every further call throws the same one.
  std::optional<Sample> next();

  /// What was delivered, also after an Error of next(), which has ended the workers.
  SavableDataLoaderState save_state();
  /// Throws Error (kMismatch, kInvalidArgument) that lists all differences; then nothing has
  /// changed.
  void restore_state(const SavableDataLoaderState& state);
  /// Ends the workers and keeps the position.
  void stop();

  /// Of the batch that next() gave last; nothing before the first one since the start or a restore.
  const std::optional<BatchPlace>& last_place() const { return last_place_; }

  /// What the order depends on: state_config().
  const Config& config() const;

  const PipelineFactory& make_pipeline() const { return make_pipeline_; }
  const LoaderOptions& options() const { return options_; }

  bool running() const { return group_ != nullptr && group_->running(); }
  std::vector<int> worker_pids() const;
  /// Sums since the stream was made, over stops and restores.
  LoaderStatistics stats() const;

 private:
  std::optional<Sample> advance();
  std::optional<Sample> read(std::size_t stream);
  std::optional<Sample> read_in_process(std::size_t stream);
  void take_reports();
  std::int64_t delivered_by(int worker) const;
  void log(std::string_view event, const Config& more = Config::object());
  void log_yield(std::size_t stream, const Sample& batch);
  void start();
  void start_epoch();
  void check_epoch_was_usable() const;
  void remember_turns();
  void forget_attempt();
  void keep_position();
  void keep_if_due(std::size_t stream, const Sample* batch);
  std::vector<SavableDatasetCheckpoint> positions();

  const std::string type_;
  const PipelineFactory make_pipeline_;
  const LoaderOptions options_;
  FailureLog failures_;
  HeapBufferPool memory_;                                       // of the in-process pipeline
  std::unique_ptr<StatisticsBlock> counted_;                    // by it
  LoaderMonitor monitor_{*counted_};                            // of it
  CpuShare cpu_;                                                // likewise
  std::unique_ptr<WorkerGroup> group_;                          // with workers
  std::vector<std::unique_ptr<PositionedDataset>> in_process_;  // without, once started
  std::vector<KeptPosition> kept_;                              // of those
  std::uint64_t drops_ = 0;                                     // before their last batch

  std::optional<Error> failure_;
  std::optional<BatchPlace> last_place_;
  std::optional<Error> lost_position_;    // after a failure: why the position is not known
  mutable std::optional<Config> config_;  // made when first asked for

  // Position, saved.
  std::vector<SavableDatasetCheckpoint> start_;  // where each stream (re)starts
  std::vector<std::int64_t> delivered_;          // batches of each stream, ever
  std::vector<Certificate> certificates_;        // of each stream
  Turns turns_;
  bool epoch_finished_ = false;
  std::int64_t batch_index_ = 0;
  std::optional<std::int64_t> step_in_epoch_ = 0;

  // What next() changes before it has a batch, as it was; nothing: it changed nothing.
  struct Place {
    Turns turns;
    bool epoch_finished;
    std::optional<std::int64_t> step_in_epoch;
  };
  std::optional<Place> place_before_;

  // Where the epoch began, if it began here: an epoch of which nothing can be used is an error.
  struct EpochStart {
    std::int64_t batches;
    std::uint64_t failures;
  };
  std::optional<EpochStart> epoch_start_;

  ConsumerStatistics consumer_;
  std::optional<std::chrono::steady_clock::time_point> returned_at_;  // from next()

  DebugLog log_;
  std::size_t last_stream_ = 0;    // that the last batch came from
  std::int64_t iter_index_ = -1;   // batches since the epoch began here; -1: none was asked for
  std::int64_t global_index_ = 0;  // batches since the stream was made
};

}  // namespace energon
