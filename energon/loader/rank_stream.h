// The batches of one rank, in order, from its workers or from pipelines in the caller's process.
//
// Each logical shard of the rank is a stream. Streams give their batches in turn
// (energon/checkpoint/loader_state.h); a stream at the end of its epoch is skipped until all have
// reached theirs. The saved state covers only delivered batches. Batches that workers made ahead
// are not in it and are made again after a restore. A failed next() does not change the state: it
// can be saved after any error, and is then the position after the last delivered batch.
//
// Note [Position]: a next() works on a place of its own (now_). What it delivers becomes part of
// the position in one step, under a mutex that it never holds while it waits or makes a batch. So
// the position can be read at any time. A batch of a worker is released in the same step, because
// from then on the worker may overwrite the checkpoint before it.

#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/delivery_log.h"
#include "energon/loader/failure_log.h"
#include "energon/loader/loader_config.h"
#include "energon/loader/one_caller.h"
#include "energon/loader/own_streams.h"
#include "energon/loader/worker_group.h"
#include "energon/process/wait_check.h"
#include "energon/stage/dataset.h"
#include "energon/stage/debug_log.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "energon/worker/stream_checkpoints.h"
#include "io/boxed_json.h"
#include "io/error.h"
#include "io/mutex.h"
#include "io/owner_process.h"

namespace energon {

/// How a call reads the position.
enum class Access : std::uint8_t {
  kAlone,   ///< no other call runs until it returns
  kBeside,  ///< another call may run, in this thread or another one
};

/// For one thread at a time, except for the functions that say so. Its owner enters caller() for
/// each of the others.
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
  /// ends the workers. Thread-safe with Access::kBeside.
  SavableDataLoaderState save_state(Access access);
  /// The position after `batch_index` batches, before the end of an epoch that may follow was
  /// reported. Alone, it asks the command threads of the workers, which have a moment to answer.
  /// Thread-safe with Access::kBeside. Throws Error: kInvalidArgument, with the earliest batch that
  /// can be reached, if it is before that one or not delivered; those of save_state().
  SavableDataLoaderState state_at(std::int64_t batch_index, Access access);
  /// The lowest batch index that state_at() reaches. Thread-safe.
  std::int64_t earliest_state() const;

  /// Goes back to state_at(batch_index) and keeps the history before it. Ends the workers, whatever
  /// their condition. Throws as state_at(); then nothing has changed.
  void rewind(std::int64_t batch_index);
  /// Throws Error: kMismatch with all differences, kInvalidArgument while workers run; then nothing
  /// has changed. Starts a new history, unless `state` is the current position.
  void restore_state(const SavableDataLoaderState& state);
  /// Ends the workers and keeps the position.
  void stop();
  /// Ends the workers and the fork server for good and keeps the position. Ends a next() of another
  /// thread first, which throws; from within a function or check that next() calls, next() itself
  /// closes when it ends. Idempotent, thread-safe.
  void close();

  /// Which call of the loader runs.
  OneCaller& caller() { return caller_; }

  // All of the following are thread-safe.

  /// The settings that the order depends on: state_config().
  const Config& config() const;

  /// Number of epochs whose end was reported.
  std::int64_t epochs_ended() const;
  /// Batches still to come in this epoch, at its end those of the next one; nothing if the epoch
  /// never ends.
  std::optional<std::int64_t> batches_left() const;
  /// Batches in one epoch of this rank; nothing if the epoch never ends.
  std::optional<std::int64_t> epoch_size() const { return sizes_.of_rank(); }

  const PipelineFactory& make_pipeline() const { return make_pipeline_; }
  const LoaderOptions& options() const { return options_; }

  std::vector<int> worker_pids() const;
  /// Totals since the stream was made; stops and restores do not reset them.
  LoaderStatistics stats() const;

 private:
  /// Where a stream stands: a checkpoint of a worker or of the history, or the pipeline's state.
  struct Found {
    std::string encoded;  // empty: `position`
    SavableDatasetCheckpoint position;
  };
  /// A position as it was copied, with nothing decoded yet.
  struct Snapshot {
    RankPosition position;
    std::vector<Found> streams;
  };
  using Indexes = std::vector<std::optional<std::int64_t>>;

  bool running() const { return group_ != nullptr && group_->running(); }
  std::optional<Sample> advance();
  std::optional<Sample> next_in_turn();
  void count_delivery(std::size_t stream, Sample& batch);
  void count_end();
  void count_for_statistics(const std::optional<Sample>& batch, std::chrono::nanoseconds wait);
  std::optional<Sample> read(std::size_t stream);
  void log(std::string_view event);
  void log(std::string_view event, const Config& more);
  void log_yield(std::size_t stream, const Sample& batch);
  void start();
  void start_epoch();
  void replace_workers();
  void count_lost_epoch();
  std::int64_t delivered_batches() const;
  void forget_attempt();
  void end_interrupted();
  void end_failed();
  void end_for_good();
  void refuse_if_closed();
  enum class Reads : std::uint8_t { kSucceeded, kFailed };  // of the pipelines in this process
  bool keep_position(Reads reads);
  void take_history() ENERGON_REQUIRES(mutex_);
  void begin_history() ENERGON_REQUIRES(mutex_);
  bool has_position(const SavableDataLoaderState& state) const ENERGON_REQUIRES(mutex_);
  void go_on_from(std::vector<SavableDatasetCheckpoint> start, RankPosition position)
      ENERGON_REQUIRES(mutex_);

  void check_process() const;
  Snapshot snapshot(Access access, Reads reads = Reads::kSucceeded) const ENERGON_REQUIRES(mutex_);
  Found found_at(std::size_t stream, const RankPosition& position,
                 const std::optional<std::int64_t>& answer) const ENERGON_REQUIRES(mutex_);
  std::vector<SavableDatasetCheckpoint> positions(const Snapshot& snapshot) const;
  SavableDataLoaderState state_of(const Snapshot& snapshot) const;
  std::int64_t earliest() const ENERGON_REQUIRES(mutex_);
  void check_reach(std::int64_t batch_index) const ENERGON_REQUIRES(mutex_);
  Indexes ask_workers(std::int64_t batch_index);
  Snapshot snapshot_at(std::int64_t batch_index, const Indexes& answers) const
      ENERGON_REQUIRES(mutex_);

  const std::string type_;
  const PipelineFactory make_pipeline_;
  const LoaderOptions options_;
  const OwnerProcess owner_;
  OneCaller caller_;
  WaitCheck check_;
  FailureLog failures_;
  CheckpointHistory history_;
  OwnStreams own_{make_pipeline_, options_, failures_, history_, check_};  // without workers
  std::unique_ptr<WorkerGroup> group_;  // with workers; set and reset under mutex_
  bool is_ended_ = false;               // by close()

  std::optional<Error> failure_;

  // What a next() has come to; its own, unless it delivers.
  EpochPlace now_;
  bool is_place_changed_ = false;  // other than by deliveries

  // Note [Position].
  mutable Mutex mutex_;
  std::vector<SavableDatasetCheckpoint> start_ ENERGON_GUARDED_BY(mutex_);  // of each stream
  RankPosition position_ ENERGON_GUARDED_BY(mutex_);
  DeliveryLog deliveries_ ENERGON_GUARDED_BY(mutex_);
  std::optional<Error> lost_position_ ENERGON_GUARDED_BY(mutex_);  // why it is not known
  ConsumerStatistics consumer_ ENERGON_GUARDED_BY(mutex_);
  std::vector<WorkerStatistics> ended_workers_ ENERGON_GUARDED_BY(mutex_);  // what they counted

  mutable EpochSizes sizes_{make_pipeline_, options_.worker_config};

  mutable Mutex config_mutex_;
  mutable std::optional<BoxedJson> config_ ENERGON_GUARDED_BY(config_mutex_);  // at the first use

  std::optional<std::chrono::steady_clock::time_point> returned_at_;  // from next()
  DebugLog log_;
  std::optional<std::int64_t> iter_index_;  // batches of this epoch, from its first next() on
  std::int64_t global_index_ = 0;           // batches since the stream was made
};

}  // namespace energon
