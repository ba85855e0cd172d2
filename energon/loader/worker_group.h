// The parent's view of the workers of one loader.
//
// A fork server is forked when the group is made; workers are forked from it when the group starts.
// If a worker dies, or makes no progress for the timeout, calls throw an Error that says which
// worker it was, how it ended and what it was doing. A worker that has delivered all of its epoch
// may die: nobody reads from it until the next epoch, for which the group is started again.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/checkpoint/turns.h"
#include "energon/loader/failure_log.h"
#include "energon/loader/live_worker.h"
#include "energon/process/fork_server.h"
#include "energon/process/wait_check.h"
#include "energon/sample/sample.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/arena_reserve.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "io/error.h"
#include "io/owner_process.h"

namespace energon {

/// For one thread at a time.
class WorkerGroup {
 public:
  /// Forks the fork server; `make_pipeline` is copied into it. Requires:
  /// options.worker_config.num_workers > 0. Throws Error (kResourceExhausted, kUnsupported). The
  /// destructor ends all workers. The workers' failure reports go to `failures`. The waits of
  /// start(), read() and get_checkpoints() look at `check`; what it throws leaves them, and the
  /// call may be repeated. Both must outlive the group.
  WorkerGroup(PipelineFactory make_pipeline, const LoaderOptions& options, FailureLog& failures,
              WaitCheck& check);
  ~WorkerGroup();
  WorkerGroup(const WorkerGroup&) = delete;
  WorkerGroup& operator=(const WorkerGroup&) = delete;

  /// Starts all workers in epoch `epoch`, each stream of the rank at its checkpoint. Requires: not
  /// running, a checkpoint for each stream.
  void start(std::span<const SavableDatasetCheckpoint> checkpoints, std::int64_t epoch);
  /// Ends all workers, whatever their condition. Batches already handed out stay valid. Idempotent.
  /// Throws Error (kCancelled) in a forked child.
  void stop();
  bool running() const { return !workers_.empty(); }
  /// The death of a worker that has not delivered all of its epoch: one of its streams has not
  /// ended the epoch of `turns`, which count what was read. Nothing if there is none.
  std::optional<Error> death(const Turns& turns);
  /// Whether a worker has died since the group started.
  bool has_dead_worker() const;

  /// The next batch of `stream`, whose turn it must be among the streams of its worker; nothing at
  /// the end of its epoch. Throws Error: what the worker's pipeline threw, with the worker's id;
  /// kWorkerDied if this worker is dead and has sent nothing more; kTimeout. Call
  /// take() after each batch, before the next call.
  std::optional<Sample> read(std::size_t stream);
  /// Records that the batch which read() returned is delivered: from now on positions() may be
  /// asked for the one after it only.
  void take(std::size_t stream);

  /// Tells all workers to start epoch `epoch`. Requires: all workers have reported the end of the
  /// epoch before, and none was dead.
  void start_epoch(std::int64_t epoch);

  /// Whether the worker of `stream` died after start_epoch() but before it began the epoch, so that
  /// nothing is missing of it.
  bool died_before_epoch(std::size_t stream) const { return worker_of(stream).died_before_epoch(); }

  /// The position of each stream i after `delivered[i]` batches, taken from the checkpoint rings,
  /// whether or not the workers are alive. Requires: running; `delivered` counts all batches read.
  /// Throws Error: kCorruptData if a ring holds no whole checkpoint, kCancelled in a forked child.
  std::vector<SavableDatasetCheckpoint> positions(std::span<const std::int64_t> delivered) const;

  /// Same as positions(), but the command threads of the workers say which checkpoints to take:
  /// Energon's get_checkpoint(last_sample_indexes). Also throws Error (kWorkerDied, kTimeout).
  std::vector<SavableDatasetCheckpoint> get_checkpoints(std::span<const std::int64_t> delivered);

  /// What each worker counted, in this run and in earlier ones. Throws Error (kCancelled) in a
  /// forked child.
  std::vector<WorkerStatistics> statistics() const;

  /// Process ids of the running workers, for statistics.
  std::vector<int> worker_pids() const;

 private:
  void check_alive();
  void end_workers();
  LiveWorker& worker_of(std::size_t stream) { return workers_[stream % workers_.size()]; }
  const LiveWorker& worker_of(std::size_t stream) const {
    return workers_[stream % workers_.size()];
  }
  LiveWorker started_worker(int id, std::int64_t epoch, const AddressSpace& space);
  SavableDatasetCheckpoint position(std::size_t stream, std::int64_t delivered,
                                    std::optional<std::uint64_t> index) const;

  const LoaderOptions options_;
  const OwnerProcess owner_;
  FailureLog& failures_;
  WaitCheck& check_;
  ForkServer fork_server_;
  std::vector<LiveWorker> workers_;
  std::vector<SavableDatasetCheckpoint> starts_;  // where each stream began
  std::vector<int> worker_fds_;                   // pidfds, to poll them all at once
  std::uint64_t generation_ = 0;
  std::vector<WorkerStatistics> earlier_;  // of runs that ended
};

}  // namespace energon
