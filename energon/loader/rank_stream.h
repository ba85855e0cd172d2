// The batches of one rank, in order, from its workers or from pipelines in the caller's process.
//
// Each logical shard of the rank is a stream. Streams give their batches in turn
// (energon/checkpoint/turns.h); a stream at the end of its epoch is skipped until all have reached
// theirs. The saved state covers only delivered batches. Batches that workers made ahead are not in
// it and are made again after a restore. A failed next() does not change the state: it can be saved
// after any error, and is then the position after the last delivered batch.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/turns.h"
#include "energon/loader/failure_log.h"
#include "energon/loader/loader_config.h"
#include "energon/loader/one_caller.h"
#include "energon/loader/own_streams.h"
#include "energon/loader/worker_group.h"
#include "energon/process/wait_check.h"
#include "energon/stage/debug_log.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "io/boxed_json.h"

namespace energon {

/// For one thread at a time, except for close() and caller(). Its owner enters caller() for each
/// call.
class RankStream {
 public:
  /// `type` is the loader's name in the debug log.
  RankStream(std::string_view type, PipelineFactory make_pipeline, const LoaderOptions& options);

  /// The next batch, with its place in the job; nothing once at the end of each epoch, after which
  /// the next epoch begins.
  /// Whatever a pipeline throws becomes an Error (to_error()); every further call throws
  /// the same Error. What options.wait_check throws leaves the call as it is; the position is then
  /// that before the call, and the next call goes on. Throws Error (kCancelled) after close().
  std::optional<Sample> next();

  /// The position after the delivered batches. Also works after next() has thrown an Error, which
  /// ends the workers.
  SavableDataLoaderState save_state();
  /// Throws Error: kMismatch with all differences, kInvalidArgument while workers run; then nothing
  /// has changed.
  void restore_state(const SavableDataLoaderState& state);
  /// Ends the workers and keeps the position.
  void stop();
  /// Ends the workers and the fork server for good and keeps the position. Ends a next() of another
  /// thread first, which throws; from within a function or check that next() calls, next() itself
  /// closes when it ends. Idempotent, thread-safe.
  void close();

  /// Which call of the loader runs.
  OneCaller& caller() { return caller_; }

  /// The settings that the order depends on: state_config().
  const Config& config() const;

  /// Number of epochs whose end was reported.
  std::int64_t epochs_ended() const {
    return place().turns.epoch() + (place().epoch_finished ? 1 : 0);
  }
  /// Batches still to come in this epoch, at its end those of the next one; nothing if the epoch
  /// never ends.
  std::optional<std::int64_t> batches_left() const;
  /// Batches in one epoch of this rank; nothing if the epoch never ends.
  std::optional<std::int64_t> epoch_size() const { return sizes_.of_rank(); }

  const PipelineFactory& make_pipeline() const { return make_pipeline_; }
  const LoaderOptions& options() const { return options_; }

  bool running() const { return group_ != nullptr && group_->running(); }
  std::vector<int> worker_pids() const;
  /// Totals since the stream was made; stops and restores do not reset them.
  LoaderStatistics stats() const;

 private:
  std::optional<Sample> advance();
  std::optional<Sample> next_in_turn();
  void count_delivery(std::size_t stream, Sample& batch);
  std::optional<Sample> read(std::size_t stream);
  std::int64_t delivered_by(int worker) const;
  void log(std::string_view event);
  void log(std::string_view event, const Config& more);
  void log_yield(std::size_t stream, const Sample& batch);
  void start();
  void start_epoch();
  void replace_workers();
  void count_lost_epoch();
  void remember_place();
  void forget_attempt();
  void end_interrupted();
  void end_failed();
  void end_for_good();
  void refuse_if_closed();
  void keep_position();
  std::vector<SavableDatasetCheckpoint> positions();

  const std::string type_;
  const PipelineFactory make_pipeline_;
  const LoaderOptions options_;
  OneCaller caller_;
  WaitCheck check_;
  FailureLog failures_;
  OwnStreams own_{make_pipeline_, options_, failures_, check_};  // without workers
  std::unique_ptr<WorkerGroup> group_;                           // with workers
  bool has_failed_reads_ = false;                                // of own_
  bool is_ended_ = false;                                        // by close()
  std::vector<WorkerStatistics> ended_workers_;                  // what they counted

  std::optional<Error> failure_;
  std::optional<Error> lost_position_;       // set after a failure if the position is unknown
  mutable std::optional<BoxedJson> config_;  // made at the first use
  mutable EpochSizes sizes_{make_pipeline_, options_.worker_config};

  // Saved position.
  std::vector<SavableDatasetCheckpoint> start_;  // where each stream (re)starts
  std::vector<std::int64_t> delivered_;          // batches of each stream, over all epochs
  std::vector<Certificate> certificates_;        // of each stream
  std::int64_t batch_index_ = 0;
  // Counters at the start of the epoch, to know an epoch of which nothing could be used.
  struct EpochStart {
    std::int64_t batches;
    std::uint64_t failures;
  };
  // What next() may change before it has a batch.
  struct Place {
    Turns turns;
    bool epoch_finished = false;
    std::optional<std::int64_t> step_in_epoch = 0;
    std::optional<EpochStart> epoch_start = {};  // if it started in this object
  };
  Place now_;
  // As it was before the next() that runs, or that was interrupted and has workers which went on;
  // nothing if it changed nothing.
  std::optional<Place> before_;
  // That of the position.
  const Place& place() const { return before_ ? *before_ : now_; }

  ConsumerStatistics consumer_;
  std::optional<std::chrono::steady_clock::time_point> returned_at_;  // from next()

  DebugLog log_;
  std::optional<std::int64_t> iter_index_;  // batches of this epoch, from its first next() on
  std::int64_t global_index_ = 0;           // batches since the stream was made
};

}  // namespace energon
