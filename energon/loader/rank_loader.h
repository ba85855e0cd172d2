// The batches of one rank, in order, from its workers or from pipelines in the caller's process.
//
// The logical shards of the rank deliver their batches in turn (Turns in
// energon/checkpoint/loader_state.h); one that reached the end of its epoch is skipped until all
// have. What concerns the position (save, restore, rewind) is in rank_loader_position.cpp. The
// saved state covers only delivered batches. Batches that workers made ahead are not in it and are
// made again after a restore. A failed next() does not change the state: it can be saved after any
// error, and is then the position after the last delivered batch.
//
// Note [Position]: a next() works on a place of its own (now_). What it delivers becomes part of
// the position in one step, under a mutex that it never holds while it waits or makes a batch. So
// the position can be read at any time. A batch of a worker is released in the same step, because
// from then on the worker may overwrite the checkpoint before it.

#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "energon/checkpoint/certificate.h"
#include "energon/checkpoint/loader_state.h"
#include "energon/loader/checkpoint_history.h"
#include "energon/loader/failure_log.h"
#include "energon/loader/loader_config.h"
#include "energon/loader/local_pipelines.h"
#include "energon/loader/worker_group.h"
#include "energon/process/wait.h"
#include "energon/stage/dataset.h"
#include "energon/stage/debug_log.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/json.h"

namespace energon {

// Lets one call of a loader run at a time, and lets short calls of other threads in beside it.
//
// A loader is for one thread at a time. That two threads take batches at once is a mistake of the
// program, which would otherwise be seen as damaged batches or a crash. What only looks at the
// loader, such as a save, is welcome from any thread: if no call runs, it is the one that runs, and
// the next call waits for it; else it must do with what is safe beside another call.

/// Thread-safe. In a forked child of the process that made it, every call is let in, because the
/// thread that was in a call does not exist there.
class OneCaller {
 public:
  /// One call, until it is destroyed. Move-only.
  class Call {
   public:
    explicit Call(OneCaller* caller) : caller_(caller) {}
    Call(Call&& other) noexcept : caller_(std::exchange(other.caller_, nullptr)) {}
    Call& operator=(Call&&) = delete;
    ~Call() {
      if (caller_ != nullptr) {
        caller_->leave();
      }
    }

   private:
    OneCaller* caller_;
  };

  /// `what` names the call, such as "next()"; it must be a literal. Waits while a brief call of
  /// another thread runs. Throws Error (kInvalidArgument) with the names of both calls if any other
  /// call runs.
  [[nodiscard]] Call enter(const char* what);

  /// For a call that takes a moment and that must not end others. Nothing if a call runs that is
  /// not brief, or waits to: then the caller must not touch what that call uses.
  [[nodiscard]] std::optional<Call> enter_briefly(const char* what);

  /// As enter(), but waits until the call of another thread has ended. Nothing if the calling
  /// thread itself is in a call.
  [[nodiscard]] std::optional<Call> enter_after_others(const char* what);

 private:
  bool is_in_call() const ENERGON_REQUIRES(mutex_) {
    return running_ != nullptr && thread_ == std::this_thread::get_id();
  }
  void begin(const char* what, bool is_brief) ENERGON_REQUIRES(mutex_);
  void wait() ENERGON_REQUIRES(mutex_);
  void leave();

  const OwnerProcess owner_;
  Mutex mutex_;
  Condition ended_;
  const char* running_ ENERGON_GUARDED_BY(mutex_) = nullptr;
  bool is_brief_ ENERGON_GUARDED_BY(mutex_) = false;
  std::thread::id thread_ ENERGON_GUARDED_BY(mutex_);
  int waiting_ ENERGON_GUARDED_BY(mutex_) = 0;  // calls that are not brief
};

// Where a rank stands after what it delivered, and the way back: what each of the last batches
// changed.

/// Counters at the start of an epoch. An epoch without one usable batch is an error.
struct EpochStart {
  std::int64_t batches;
  std::uint64_t failures;
};

/// The place of a rank in its epochs.
struct EpochPlace {
  Turns turns = {};
  bool epoch_finished = false;
  std::optional<std::int64_t> step_in_epoch = 0;
  std::optional<EpochStart> epoch_start = {};  // if it started in this object
};

/// The position of a rank, without the states of its pipelines. A value type.
struct RankPosition {
  EpochPlace place;
  std::vector<std::int64_t> delivered;    // batches of each logical shard, over all epochs
  std::vector<Certificate> certificates;  // of each logical shard
  std::int64_t batch_index = 0;

  CheckpointPlace of(std::size_t local_index) const {
    return {delivered[local_index], place.turns.of(local_index).epoch};
  }
};

/// Undoes deliveries. A batch takes 32 bytes; only where a logical shard or the rank ended an epoch
/// is the whole place kept. Not thread-safe.
class DeliveryLog {
 public:
  /// Keeps the last `batches` deliveries.
  explicit DeliveryLog(std::int64_t batches) : most_(batches) {}

  /// Forgets everything. The logical shards have delivered these numbers of batches, the rank all
  /// `batch_index`.
  void begin(std::vector<std::int64_t> delivered, std::int64_t batch_index);
  /// The `batch_index` given to begin(). Earlier positions are unknown.
  std::int64_t begin_index() const { return begin_index_; }

  /// A delivery that can no longer be undone.
  struct Forgotten {
    std::size_t local_index;
    bool is_place;  ///< first() may have changed for other logical shards, too
  };

  /// Records that the next batch of logical shard `local_index` is delivered. `certificate`: of the
  /// logical shard, before it. `place`: the one before, if more than the turn of the logical shard
  /// changes. Returns what was forgotten for it.
  std::optional<Forgotten> add_batch(std::size_t local_index, const Certificate& certificate,
                                     std::optional<EpochPlace> place);
  /// Records that the end of an epoch is reported. `place`: the one before.
  void add_end(EpochPlace place);

  /// Where logical shard `local_index` was before all that can be undone. `now`: the place after
  /// all that was added.
  CheckpointPlace first(std::size_t local_index, const EpochPlace& now) const;

  /// The position after `batch_index` batches, before the end of an epoch that may follow was
  /// reported. `now`: the position after all that was added. Requires: all
  /// batches since then can be undone.
  RankPosition position_at(std::int64_t batch_index, RankPosition now) const;

  /// Forgets what was added after `batch_index`; `now` as for position_at().
  void go_back(std::int64_t batch_index, const RankPosition& now);

  /// The number of the last batches that can be undone with checkpoints from `oldest[logical
  /// shard]` on.
  std::int64_t batches_after(std::span<const CheckpointPlace> oldest,
                             const RankPosition& now) const;

 private:
  static constexpr std::uint32_t kNoLogicalShard = ~std::uint32_t{0};

  struct Entry {
    std::uint32_t local_index;  // kNoLogicalShard: the end of an epoch
    Certificate certificate;
    std::unique_ptr<const EpochPlace> place;  // null: only the logical shard's turn changed
  };

  void push(Entry entry);
  bool pop_oldest();
  static void undo(const Entry& entry, RankPosition& position);
  std::size_t entries_after(std::int64_t batch_index, std::int64_t now) const;

  const std::int64_t most_;
  std::deque<Entry> entries_;             // newest last
  std::deque<const EpochPlace*> places_;  // of those that have one
  std::int64_t batches_ = 0;
  std::int64_t begin_index_ = 0;
  std::vector<std::int64_t> first_counts_;
};

/// How a call reads the position.
enum class Access : std::uint8_t {
  kAlone,   ///< no other call runs until it returns
  kBeside,  ///< another call may run, in this thread or another one
};

/// For one thread at a time, except for the functions that say so. Its owner enters caller() for
/// each of the others.
class RankLoader {
 public:
  /// `type` is the loader's name in the debug log.
  RankLoader(std::string_view type, PipelineFactory make_pipeline, const LoaderOptions& options);

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
  /// Totals since the logical shard was made; stops and restores do not reset them.
  LoaderStatistics stats() const;

 private:
  /// Where a logical shard stands: a checkpoint of a worker or of the history, or the pipeline's
  /// state.
  struct Found {
    std::string encoded;  // empty: `position`
    SavableDatasetCheckpoint position;
  };
  /// A position as it was copied, with nothing decoded yet.
  struct Snapshot {
    RankPosition position;
    std::vector<Found> logical_shards;
  };
  using Indexes = std::vector<std::optional<std::int64_t>>;

  bool running() const { return group_ != nullptr && group_->running(); }
  std::optional<Sample> advance();
  std::optional<Sample> next_in_turn();
  void count_delivery(std::size_t local_index, Sample& batch);
  void count_end();
  void count_for_statistics(const std::optional<Sample>& batch, std::chrono::nanoseconds wait);
  std::optional<Sample> read(std::size_t local_index);
  void log(std::string_view event);
  void log(std::string_view event, const Config& more);
  void log_yield(std::size_t local_index, const Sample& batch);
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
  Found found_at(std::size_t local_index, const RankPosition& position,
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
  LocalPipelines local_{make_pipeline_, options_, failures_, history_, check_};  // without workers
  std::unique_ptr<WorkerGroup> group_;  // with workers; set and reset under mutex_
  bool is_ended_ = false;               // by close()

  std::optional<Error> failure_;

  // What a next() has come to; its own, unless it delivers.
  EpochPlace now_;
  bool is_place_changed_ = false;  // other than by deliveries

  // Note [Position].
  mutable Mutex mutex_;
  std::vector<SavableDatasetCheckpoint> start_ ENERGON_GUARDED_BY(mutex_);  // of each logical shard
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
  std::int64_t global_index_ = 0;           // batches since the logical shard was made
};

}  // namespace energon
