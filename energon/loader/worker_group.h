// The workers of one loader, as the parent sees them.
//
// A fork server is forked when the group is made; workers are forked from it when the group starts.
// A worker that dies, or makes no progress for the timeout, ends in an Error that names it, how it
// ended and what it was doing.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <variant>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/failure_log.h"
#include "energon/process/fork_server.h"
#include "energon/process/owner_process.h"
#include "energon/process/worker_channel.h"
#include "energon/sample/sample.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"
#include "io/error.h"

namespace energon {

/// For one thread at a time.
class WorkerGroup {
 public:
  /// Forks the fork server; `make_pipeline` is copied into it. Requires:
  /// options.worker_config.num_workers > 0. Throws Error (kResourceExhausted, kUnsupported).
  /// The destructor ends all workers. `failures`, which must outlive the group, gets the reports of
  /// the workers.
  WorkerGroup(PipelineFactory make_pipeline, const LoaderOptions& options, FailureLog& failures);

  /// Starts all workers in epoch `epoch`, each stream of the rank at its place. Requires: not
  /// running, a checkpoint for each stream.
  void start(std::span<const SavableDatasetCheckpoint> checkpoints, std::int64_t epoch);
  /// Ends all workers, however they are. Batches that were handed out stay valid. Idempotent.
  /// Throws Error (kCancelled) in a forked child.
  void stop();
  bool running() const { return !workers_.empty(); }
  /// Of a worker that died since the group started; nothing while all live.
  std::optional<Error> death();

  /// The next batch of `stream`, whose turn it must be among the streams of its worker; nothing at
  /// the end of its epoch. Throws Error: what the worker's pipeline threw, with the worker's id;
  /// kWorkerDied if any worker is dead; kTimeout.
  std::optional<Sample> read(std::size_t stream);

  /// Tells all workers to start epoch `epoch`. Requires: all reported the end of the one before.
  void start_epoch(std::int64_t epoch);

  /// Where stream i stands after `delivered[i]` batches, which must have been read, all of them:
  /// read from the checkpoint rings, whether the workers live or not. Requires: running. Throws
  /// Error: kCorruptData if nothing whole is left in a ring, kCancelled in a forked child.
  std::vector<SavableDatasetCheckpoint> positions(std::span<const std::int64_t> delivered) const;

  /// The same, but the command threads of the workers say which checkpoints those are: Energon's
  /// get_checkpoint(last_sample_indexes). Throws Error (kWorkerDied, kTimeout) too.
  std::vector<SavableDatasetCheckpoint> get_checkpoints(std::span<const std::int64_t> delivered);

  /// What each worker counted, in this run and earlier ones. Throws Error (kCancelled) in a forked
  /// child.
  std::vector<WorkerStatistics> statistics() const;

  /// Process ids of the running workers, for statistics.
  std::vector<int> worker_pids() const;

 private:
  struct Worker {
    std::unique_ptr<ParentEndpoint> channel;
    WorkerProcess process;
    std::uint64_t taken = 0;  // batches
  };
  /// What a message holds, in the slots that it came in.
  struct Received {
    std::vector<SharedBytes> slots;
    std::string_view encoded;
  };

  Received receive(Worker& worker, ByteView unit);
  void receive_reports(Worker& worker, ByteView unit);
  void check_alive();
  [[noreturn]] void throw_dead(const Worker& worker);
  [[noreturn]] void throw_stuck(const Worker& worker, std::string_view what);
  std::string doing(const Worker& worker) const;
  ErrorContext place_of(const Worker& worker) const;
  Worker& worker_of(std::size_t stream);
  const Worker& worker_of(std::size_t stream) const;
  SavableDatasetCheckpoint position(std::size_t stream, std::int64_t delivered,
                                    std::optional<std::uint64_t> index) const;
  SavableDatasetCheckpoint receive_checkpoint(std::size_t stream, std::int64_t delivered,
                                              Deadline deadline);
  void send_command(Worker& worker, const void* command, std::size_t size, Deadline deadline);

  const LoaderOptions options_;
  const OwnerProcess owner_;
  FailureLog& failures_;
  ForkServer fork_server_;
  std::vector<Worker> workers_;
  std::vector<SavableDatasetCheckpoint> starts_;  // where each stream began
  std::vector<int> worker_fds_;                   // pidfds, to poll all at once
  std::uint64_t generation_ = 0;
  std::vector<WorkerStatistics> earlier_;  // of runs that ended
};

}  // namespace energon
