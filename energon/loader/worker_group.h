// The parent's view of the workers of one loader.
//
// A group forks its fork server when it is created, and its workers from the fork server when it
// starts. If a worker dies, or makes no progress for the timeout, calls throw an Error with the
// worker, how it ended and what it was doing. A worker may die after it has delivered its whole
// epoch: nobody reads from it until the next epoch, for which the group is started again. A
// LiveWorker is one running worker, a WorkerGroup all of them.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/failure_log.h"
#include "energon/process/fork_server.h"
#include "energon/process/wait.h"
#include "energon/process/worker_channel.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/worker/channel_sizes.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics.h"
#include "energon/worker/transport.h"
#include "io/concurrency.h"
#include "io/error.h"

namespace energon {

/// Shared by the workers of a group. All members outlive the workers.
struct WorkerEnvironment {
  const LoaderOptions& options;
  ForkServer& fork_server;
  WaitCheck& check;      ///< polled while read() and checkpoint_answer() wait
  FailureLog& failures;  ///< takes the failures that precede what the worker delivered
};

/// One running worker: its messages, commands, and end. For one thread at a time. Waiting calls
/// throw an Error with the worker and what it was doing: kWorkerDied if it or the fork server is
/// dead, kTimeout if it made no progress for options.timeout (no batch, no call of a function, no
/// byte read from a file); and what the check throws, after which the call may be repeated.
class LiveWorker {
 public:
  LiveWorker(std::unique_ptr<ParentEndpoint> channel, WorkerProcess process,
             const WorkerEnvironment& surroundings)
      : channel_(std::move(channel)), process_(std::move(process)), around_(surroundings) {}

  int pid() const { return process_.process.pid(); }
  /// Becomes readable when the worker ends.
  int fd() const { return process_.fd(); }
  bool ended() const { return process_.process.ended(); }
  ErrorContext place() const { return {.worker = process_.worker_id}; }
  /// Batches that were taken.
  std::uint64_t taken() const { return taken_; }

  /// The next batch, which must be from logical shard `local_index`; nullopt at the end of its
  /// epoch. Batches that the worker committed before its death are read first. Also throws the
  /// Error of the worker's pipeline, with the worker's id. Call take() after each batch, before the
  /// next call.
  std::optional<Sample> read(std::size_t local_index);
  void take();

  void send(const Command& command, Deadline deadline);
  /// Tells the worker to start `epoch`. Requires: it has delivered the end of the one before.
  void start_epoch(std::int64_t epoch, Deadline deadline);
  /// Whether the worker died after start_epoch(), but before it began the epoch.
  bool died_before_epoch() const;
  /// Sends a command if there is room for it. Returns whether there was.
  bool try_send(const Command& command);
  /// The worker's answer to kGetCheckpoint of logical shard `local_index` after `delivered`
  /// batches; nullopt if the worker dies or does not answer until `deadline`.
  std::optional<CheckpointAnswer> checkpoint_answer(std::size_t local_index,
                                                    std::uint64_t delivered, Deadline deadline);
  /// The checkpoints of the worker's logical shard with this index within the worker.
  const CheckpointReader& checkpoints(std::size_t place) const {
    return channel_->checkpoints(place);
  }

  /// Adds the counters of this run.
  void add_statistics(WorkerStatistics& sum) const;

  /// Asks the worker to end.
  void close() { channel_->close(); }
  /// Ends it, by SIGKILL if it still runs at the deadline.
  void end(Deadline deadline);
  /// The death of the worker, or of the fork server if that came first. Polls `check`, if not null,
  /// while it waits for the fork server's report.
  Error death(WaitCheck* check) const;

 private:
  /// The contents of a message, in the unit or in its slots.
  struct Received {
    std::vector<SharedBytes> slots;
    std::string_view encoded;
  };

  std::uint64_t progress() const;
  RingUnit next_message();
  Received receive(ByteView unit);
  void receive_reports(ByteView unit);
  void count_pending();
  std::string doing() const;
  ErrorContext place_of_work() const;
  std::array<int, 2> peer_gone() const { return {process_.fd(), around_.fork_server.fd()}; }
  [[noreturn]] void throw_dead() const;
  [[noreturn]] void throw_stuck(std::string_view what) const;

  std::unique_ptr<ParentEndpoint> channel_;
  WorkerProcess process_;
  WorkerEnvironment around_;
  std::uint64_t taken_ = 0;
  std::optional<std::uint64_t> progress_before_epoch_;  // when start_epoch() was called
  FailureCounts pending_;  // failures before a batch that has not arrived or was not taken
  NumberedShards shards_;  // named by its batches
};

/// For one thread at a time, except for the functions that say so.
class WorkerGroup {
 public:
  /// Forks the fork server; `make_pipeline` is copied into it. Requires:
  /// options.worker_config.num_workers > 0. Throws Error (kResourceExhausted, kUnsupported). The
  /// destructor ends all workers. The workers' failure reports go to `failures`. start(), read()
  /// and ask_for_checkpoints() poll `check` while they wait and pass its exceptions through; the
  /// call may be repeated. Both must outlive the group.
  WorkerGroup(PipelineFactory make_pipeline, const LoaderOptions& options, FailureLog& failures,
              WaitCheck& check);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Starts all workers in epoch `epoch`, each logical shard of the rank at its checkpoint.
  /// Requires: not running, a checkpoint for each logical shard.
  void start(std::span<const SavableDatasetCheckpoint> checkpoints, std::int64_t epoch);
  /// Ends all workers, whatever their condition. Batches already delivered stay valid. Idempotent.
  /// Throws Error (kCancelled) in a forked child.
  void stop();
  /// Thread-safe.
  bool running() const;
  /// The death of a worker that has not delivered its whole epoch: one of its logical shards has
  /// not ended the epoch of `turns`, which count what was read. nullopt if there is none.
  std::optional<Error> death(const Turns& turns);
  /// Whether a worker has died since the group started.
  bool has_dead_worker() const;

  /// The next batch of logical shard `local_index`, whose turn it must be among the logical shards
  /// of its worker; nullopt at the end of its epoch. Throws Error: what the worker's pipeline
  /// threw, with the worker's id; kWorkerDied if this worker is dead and has sent nothing more;
  /// kTimeout. Call take() after each batch, before the next call.
  std::optional<Sample> read(std::size_t local_index);
  /// Records that the batch of the last read() is delivered. From now on, only positions after it
  /// and those that the history covers are certain to have a checkpoint.
  void take(std::size_t local_index);

  /// Tells all workers to start epoch `epoch`. Requires: all workers have reported the end of the
  /// epoch before, and none was dead.
  void start_epoch(std::int64_t epoch);

  /// Whether the worker of logical shard `local_index` died after start_epoch() but before it began
  /// the epoch, so that nothing is lost.
  bool died_before_epoch(std::size_t local_index) {
    return worker_of(local_index).died_before_epoch();
  }

  // The next three are thread-safe. They read the checkpoint rings, whether or not the workers are
  // alive, and throw Error (kCancelled) in a forked child.

  /// The newest checkpoint of logical shard `local_index` that leads to `position`, encoded, or ""
  /// without one. There is one for the batches that were read, whatever the worker does or did:
  /// Note [Kept checkpoints] in energon/worker/batch_sender.h. Requires: running.
  std::string newest_checkpoint(std::size_t local_index, const CheckpointPlace& position) const;
  /// The place of the oldest checkpoint of logical shard `local_index`; nullopt if there is none.
  /// Requires: running.
  std::optional<CheckpointPlace> oldest_checkpoint(std::size_t local_index) const;
  /// All checkpoints of logical shard `local_index` that lead to `position`, encoded, oldest first.
  /// Requires: running.
  std::vector<std::string> checkpoints_until(std::size_t local_index,
                                             const CheckpointPlace& position) const;

  /// Energon's get_checkpoint(last_sample_indexes): the worker's command thread chooses the newest
  /// checkpoint that is not after `delivered[i]` batches of logical shard i. nullopt if there is
  /// none, or if the worker is dead or does not answer until `deadline`.
  std::vector<std::optional<std::int64_t>> ask_for_checkpoints(
      std::span<const std::int64_t> delivered, Deadline deadline);

  /// Statistics of each worker, in this run and earlier ones. Thread-safe, except during take().
  /// Throws Error (kCancelled) in a forked child.
  std::vector<WorkerStatistics> statistics() const;

  /// Process ids of the running workers, for statistics. Thread-safe.
  std::vector<int> worker_pids() const;

 private:
  void end_workers();
  // Only the thread that starts and stops the workers changes the list, so it reads without the
  // lock.
  std::vector<LiveWorker>& workers() ENERGON_NO_THREAD_SAFETY_ANALYSIS { return workers_; }
  LiveWorker& worker_of(std::size_t local_index) {
    return workers()[local_index % workers().size()];
  }
  const CheckpointReader& ring_of(std::size_t local_index) const ENERGON_REQUIRES(mutex_);
  LiveWorker started_worker(int id, std::span<const SavableDatasetCheckpoint> initial_checkpoints,
                            std::int64_t epoch, const AddressSpace& space);
  std::vector<WorkerStatistics> sums() const ENERGON_REQUIRES(mutex_);

  const LoaderOptions options_;
  const OwnerProcess owner_;
  FailureLog& failures_;
  WaitCheck& check_;
  ForkServer fork_server_;
  std::vector<int> worker_fds_;  // pidfds, to poll them all at once
  std::uint64_t generation_ = 0;

  mutable Mutex mutex_;
  std::vector<LiveWorker> workers_ ENERGON_GUARDED_BY(mutex_);              // all or none
  std::vector<WorkerStatistics> ended_workers_ ENERGON_GUARDED_BY(mutex_);  // of ended runs
};

}  // namespace energon
