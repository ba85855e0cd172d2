// The parent's view of one running worker: its messages, commands, and how it ended.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/loader/failure_log.h"
#include "energon/process/fork_server.h"
#include "energon/process/wait_check.h"
#include "energon/process/worker_channel.h"
#include "energon/sample/sample.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/protocol.h"
#include "energon/worker/statistics.h"
#include "energon/worker/transport.h"
#include "io/error.h"

namespace energon {

/// What the workers of a group share. Each outlives the workers.
struct WorkerSurroundings {
  const LoaderOptions& options;
  ForkServer& fork_server;
  WaitCheck& check;      ///< is looked at while read() and checkpoint_answer() wait
  FailureLog& failures;  ///< takes the failures that precede what the worker delivered
};

/// For one thread at a time. Calls that wait throw Error that says which worker it was and what it
/// was doing: kWorkerDied if it or the fork server is dead, kTimeout if it made no progress for
/// options.timeout (no batch, no call of a function, no byte read from a file); and what the check
/// throws, after which the call may be repeated.
class LiveWorker {
 public:
  LiveWorker(std::unique_ptr<ParentEndpoint> channel, WorkerProcess process,
             const WorkerSurroundings& surroundings)
      : channel_(std::move(channel)), process_(std::move(process)), around_(surroundings) {}

  int pid() const { return process_.process.pid(); }
  /// Becomes readable when the worker ends.
  int fd() const { return process_.fd(); }
  bool ended() const { return process_.process.ended(); }
  ErrorContext place() const { return {.worker = process_.worker_id}; }
  /// Batches that were taken.
  std::uint64_t taken() const { return taken_; }

  /// The next batch, which must be of `stream`; nothing at the end of its epoch. What the worker
  /// committed before it died is read first. Throws Error: also what the worker's pipeline threw,
  /// with the worker's id. take() is to be called after each batch, before the next call.
  std::optional<Sample> read(std::size_t stream);
  void take();

  void send(const Command& command, Deadline deadline);
  /// Tells the worker to start `epoch`. Requires: it has delivered the end of the one before.
  void start_epoch(std::int64_t epoch, Deadline deadline);
  /// Whether it died after that, but before it began the epoch.
  bool died_before_epoch() const;
  /// Sends a command if there is room for it. Returns whether there was.
  bool try_send(const Command& command);
  /// The worker's answer to kGetCheckpoint of `stream` after `delivered` batches; nullopt if the
  /// worker dies or does not answer until `deadline`.
  std::optional<CheckpointAnswer> checkpoint_answer(std::size_t stream, std::uint64_t delivered,
                                                    Deadline deadline);
  /// The checkpoints of the worker's stream with this number within the worker.
  const CheckpointReader& checkpoints(std::size_t place) const {
    return channel_->checkpoints(place);
  }

  /// Adds what this run counted.
  void add_statistics(WorkerStatistics& sum) const;

  /// Asks the worker to end.
  void close() { channel_->close(); }
  /// Ends it, by SIGKILL if it still runs at the deadline.
  void end(Deadline deadline);
  /// The death of the worker, or of the fork server if that came first. Looks at `check`, if there
  /// is one, while it waits for the fork server's report.
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
  WorkerSurroundings around_;
  std::uint64_t taken_ = 0;
  std::optional<std::uint64_t> progress_before_epoch_;  // when start_epoch() was called
  FailureCounts pending_;  // failures before a batch that has not arrived or is not taken
  NumberedShards shards_;  // that its batches have named
};

}  // namespace energon
