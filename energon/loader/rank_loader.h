// The batches of one rank, in order, from its workers or from pipelines in the caller's process.
//
// The logical shards of the rank deliver their batches in turn (Turns in
// energon/checkpoint/loader_state.h); one that reached the end of its epoch is skipped until all
// have. Saving, restoring and rewinding are in rank_loader_position.cpp. The saved state covers
// only delivered batches; batches that workers made ahead are made again after a restore. A failed
// next() does not change the state, so after any error, it can be saved and is the position after
// the last delivered batch.
//
// Note [Position]: next() works on a private place (now_). A delivery updates the position in one
// step, under a mutex that is never held while next() waits or makes a batch. So the position can
// be read at any time. The same step releases the batch of a worker, because from then on the
// worker may overwrite the checkpoint before the batch.

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

// Admits one call of a loader at a time, plus short calls of other threads.
//
// A loader is for one thread at a time. Without this check, a program whose threads take batches at
// once would see damaged batches or crash. Calls that only read, such as a save, may come from any
// thread: if no call runs, such a call runs alone, and the next call waits for it; otherwise it
// must restrict itself to what is safe during another call.

/// Thread-safe. In a forked child of the process that made it, every call is admitted, because the
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

  /// For a brief call that must not fail others. Returns nullopt if a call that is not brief runs
  /// or waits; the caller must then not touch what that call uses.
  [[nodiscard]] std::optional<Call> enter_briefly(const char* what);

  /// Like enter(), but waits until the call of another thread has ended. Returns nullopt if the
  /// calling thread itself is in a call.
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

// The position of a rank after its deliveries, and a log of the last deliveries to undo them.

/// Counters at the start of an epoch. An epoch without any usable batch is an error.
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

/// A log to undo deliveries. A batch takes 32 bytes; the complete place is stored only if a logical
/// shard or the rank ended an epoch. Not thread-safe.
class DeliveryLog {
 public:
  /// Keeps the last `batches` deliveries.
  explicit DeliveryLog(std::int64_t batches) : most_(batches) {}

  /// Forgets everything, and starts with the numbers of batches delivered by each logical shard and
  /// by the rank (`batch_index`).
  void begin(std::vector<std::int64_t> delivered, std::int64_t batch_index);
  /// The `batch_index` passed to begin(). Earlier positions are unknown.
  std::int64_t begin_index() const { return begin_index_; }

  /// A delivery that can no longer be undone.
  struct Forgotten {
    std::size_t local_index;
    bool is_place;  ///< first() may have changed for other logical shards, too
  };

  /// Records the delivery of the next batch of logical shard `local_index`. `certificate` is that
  /// of the logical shard before the batch; `place` is the previous place, needed if more than the
  /// turn of the logical shard changes. Returns the delivery that was dropped to make room.
  std::optional<Forgotten> add_batch(std::size_t local_index, const Certificate& certificate,
                                     std::optional<EpochPlace> place);
  /// Records that the end of an epoch is reported. `place` is the previous place.
  void add_end(EpochPlace place);

  /// The position of logical shard `local_index` before everything that can be undone. `now` is the
  /// place after everything that was added.
  CheckpointPlace first(std::size_t local_index, const EpochPlace& now) const;

  /// The position after `batch_index` batches, before reporting an end of the epoch that may
  /// follow. `now` is the position after everything that was added. Requires: all batches since
  /// then can be undone.
  RankPosition position_at(std::int64_t batch_index, RankPosition now) const;

  /// Forgets everything after `batch_index`; `now` as for position_at().
  void go_back(std::int64_t batch_index, const RankPosition& now);

  /// Number of batches that can be undone with checkpoints from `oldest[logical shard]` on.
  std::int64_t batches_after(std::span<const CheckpointPlace> oldest,
                             const RankPosition& now) const;

 private:
  static constexpr std::uint32_t kNoLogicalShard = ~std::uint32_t{0};

  struct Entry {
    std::uint32_t local_index;  // kNoLogicalShard: the end of an epoch
    Certificate certificate;
    std::unique_ptr<const EpochPlace> place;  // null if only the logical shard's turn changed
  };

  void push(Entry entry);
  bool pop_oldest();
  static void undo(const Entry& entry, RankPosition& position);
  std::size_t entries_after(std::int64_t batch_index, std::int64_t now) const;

  const std::int64_t most_;
  std::deque<Entry> entries_;             // newest last
  std::deque<const EpochPlace*> places_;  // of the entries that have one
  std::int64_t batches_ = 0;
  std::int64_t begin_index_ = 0;
  std::vector<std::int64_t> first_counts_;
};

/// How a call may read the position.
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

  /// The next batch, with its place in the job; nullopt once at the end of each epoch, after which
  /// the next epoch begins. Whatever a pipeline throws becomes an Error (to_error()), which every
  /// further call throws again. An exception of options.wait_check is passed through; the position
  /// is then unchanged, and the next call continues. Throws Error (kCancelled) after close().
  std::optional<Sample> next();

  /// The position after the delivered batches. Also works after next() has thrown an Error (which
  /// ends the workers). Thread-safe with Access::kBeside.
  SavableDataLoaderState save_state(Access access);
  /// The position after `batch_index` batches, before reporting an end of the epoch that may
  /// follow. With Access::kAlone, queries the command threads of the workers, with a short
  /// deadline. Thread-safe with Access::kBeside. Throws Error: kInvalidArgument, with the earliest
  /// reachable batch, if `batch_index` is before it or not delivered; those of save_state().
  SavableDataLoaderState state_at(std::int64_t batch_index, Access access);
  /// The lowest batch index that state_at() reaches. Thread-safe.
  std::int64_t earliest_state() const;

  /// Goes back to state_at(batch_index) and keeps the history before it. Ends the workers, whatever
  /// their condition. Throws like state_at(), and then changes nothing.
  void rewind(std::int64_t batch_index);
  /// Continues from `state`. Starts a new history, unless `state` is the current position. Throws
  /// Error: kMismatch with all differences, kInvalidArgument while workers run; then changes
  /// nothing.
  void restore_state(const SavableDataLoaderState& state);
  /// Ends the workers and keeps the position.
  void stop();
  /// Ends the workers and the fork server permanently and keeps the position. First interrupts a
  /// next() of another thread, which throws. If called from a function or check within next(),
  /// takes effect when next() ends. Idempotent, thread-safe.
  void close();

  /// The current call of the loader.
  OneCaller& caller() { return caller_; }

  // All of the following are thread-safe.

  /// The settings that the order depends on: state_config().
  const Config& config() const;

  /// Number of epochs whose end was reported.
  std::int64_t epochs_ended() const;
  /// Number of batches left in this epoch, or at its end, in the next one; nullopt if the epoch
  /// never ends.
  std::optional<std::int64_t> batches_left() const;
  /// Number of batches in one epoch of this rank; nullopt if the epoch never ends.
  std::optional<std::int64_t> epoch_size() const { return sizes_.of_rank(); }

  const PipelineFactory& make_pipeline() const { return make_pipeline_; }
  const LoaderOptions& options() const { return options_; }

  std::vector<int> worker_pids() const;
  /// Totals since the loader was created; stops and restores do not reset them.
  LoaderStatistics stats() const;

 private:
  /// The position of a logical shard: a checkpoint of a worker or of the history, or the pipeline's
  /// state.
  struct Found {
    std::string encoded;  // if empty, use `position`
    SavableDatasetCheckpoint position;
  };
  /// A copied position, not yet decoded.
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

  // The progress of next(), private until it delivers.
  EpochPlace now_;
  bool is_place_changed_ = false;  // other than by deliveries

  // Note [Position].
  mutable Mutex mutex_;
  std::vector<SavableDatasetCheckpoint> start_
      ENERGON_GUARDED_BY(mutex_);  // for each logical shard
  RankPosition position_ ENERGON_GUARDED_BY(mutex_);
  DeliveryLog deliveries_ ENERGON_GUARDED_BY(mutex_);
  std::optional<Error> lost_position_ ENERGON_GUARDED_BY(mutex_);  // why the position is not known
  ConsumerStatistics consumer_ ENERGON_GUARDED_BY(mutex_);
  std::vector<WorkerStatistics> ended_workers_
      ENERGON_GUARDED_BY(mutex_);  // statistics of ended workers

  mutable EpochSizes sizes_{make_pipeline_, options_.worker_config};

  mutable Mutex config_mutex_;
  mutable std::optional<BoxedJson> config_
      ENERGON_GUARDED_BY(config_mutex_);  // set at the first use

  std::optional<std::chrono::steady_clock::time_point> returned_at_;  // when next() last returned
  DebugLog log_;
  std::optional<std::int64_t> iter_index_;  // batches of this epoch, from its first next() on
  std::int64_t global_index_ = 0;           // batches since the loader was created
};

}  // namespace energon
