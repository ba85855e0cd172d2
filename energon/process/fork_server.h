// A small single-threaded child, forked when the loader is made, that forks the workers.
//
//   parent ──fork──> fork server ──fork──> worker 0 … N-1
//     │  kSpawn, kChunk…, kStop  ->  │          (SEQPACKET socket pair, fork_protocol.h)
//     │  <-  kSpawned, kSpawnFailed, kExited
//
// So a worker, also one that replaces a dead one, never comes out of a process that has grown
// threads, CUDA or a held lock. The fork server reaps its workers and reports how each ended. It
// ends with the parent, and kills its workers first; workers end with either, at once, even in
// hanging user code (ParentWatch::start_exit_thread). If the fork server is killed, its workers end
// too and every call here throws Error (kWorkerDied). Signals that a whole job gets end neither
// (fork.h): a worker is ended by stop(), by SIGKILL, or with the parent.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/process/liveness.h"
#include "energon/process/oom_kills.h"
#include "energon/process/owner_process.h"
#include "energon/process/process_handle.h"
#include "energon/process/wait.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/unique_fd.h"

namespace energon {

struct ReceivedFrame;

/// What a worker finds when it starts.
struct WorkerStart {
  int worker_id = 0;
  std::uint64_t generation = 0;        ///< 0 for the first worker of this id, then counting up
  ByteView payload;                    ///< valid as long as the worker runs
  std::vector<UniqueFd> descriptors;   ///< those of the request, in its order; take them
  const ParentWatch* watch = nullptr;  ///< lives as long as the worker; its watchdog already runs
};

/// Runs in the worker, in its main thread. What it returns is the exit code.
using WorkerMain = std::function<int(WorkerStart&)>;

struct SpawnRequest {
  int worker_id = 0;
  std::uint64_t generation = 0;
  ByteView payload = {};              ///< any size; borrowed for the call
  std::vector<int> descriptors = {};  ///< at most 64; the worker gets duplicates
};

/// A worker as the parent sees it. Move-only; destroying it does not end the worker.
struct WorkerProcess {
  int worker_id = 0;
  std::uint64_t generation = 0;
  std::uint64_t request = 0;  ///< number of the spawn() that made it
  ProcessHandle process;

  /// Readable from the worker's end on: for Wait::peer_gone.
  int fd() const { return process.fd(); }
};

struct ForkServerOptions {
  /// Descriptors of the parent that the fork server and every worker keep.
  std::vector<int> keep_descriptors = {};
  /// How long the destructor lets workers end by themselves before they are killed.
  std::chrono::milliseconds stop_grace = std::chrono::milliseconds(200);
  /// Where `proc` and `sys` are, which tell of kills for want of memory; tests have their own.
  std::string system_root = "/";
};

/// What the caller knows about the end of a worker, for a message.
using EndDetail = std::function<std::string(const ProcessEnd&)>;

/// Thread-safe. In a forked child of the parent every call throws Error (kCancelled) and the
/// destructor does nothing.
class ForkServer {
 public:
  /// Forks the server. `main` and everything it captured are copied by fork, here and now. Throws
  /// Error: kResourceExhausted (processes, descriptors), kUnsupported (no pidfds).
  explicit ForkServer(WorkerMain main, ForkServerOptions options = {});
  /// stop(options.stop_grace).
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Starts a worker. Throws Error: kResourceExhausted if the system refuses another process,
  /// kTimeout, kWorkerDied if the fork server is gone (context: the worker id).
  WorkerProcess spawn(const SpawnRequest& request, Deadline deadline);

  /// How `worker` ended; waits for it. kUnknown if the fork server died before it could tell.
  /// Throws Error (kTimeout) if the worker still runs at the deadline.
  ProcessEnd exit_of(const WorkerProcess& worker, Deadline deadline);

  /// The error for a worker that ended before it should; waits for its end as exit_of(). What the
  /// worker's main function threw, with its code; or the death of the fork server, if that was
  /// first; else worker_died(), with what `detail` says about the end, and the out-of-memory killer
  /// where that struck.
  Error death_of(const WorkerProcess& worker, Deadline deadline, const EndDetail& detail = {});

  /// Lets workers end by themselves for `grace`, kills the rest, ends and reaps the fork server.
  /// Takes at most `grace` plus two seconds. Idempotent.
  void stop(std::chrono::milliseconds grace);

  /// Readable when the fork server is gone: for Wait::peer_gone.
  int fd() const { return server_.fd(); }
  pid_t pid() const { return server_.pid(); }
  bool alive() const { return !server_.ended(); }

 private:
  void send_request(const SpawnRequest& request, std::uint64_t number, Deadline deadline);
  std::unique_ptr<ReceivedFrame> receive(Deadline deadline);
  Error server_gone(int worker_id);
  std::string note_of(const ProcessEnd& end) const;

  /// What was reported of a worker.
  struct Ended {
    ProcessEnd end;
    std::optional<Error> thrown = std::nullopt;
  };

  const OwnerProcess owner_;
  const ForkServerOptions options_;
  Lifeline lifeline_;
  ProcessHandle server_;

  std::mutex mutex_;  // guards all below and the socket's order of messages
  UniqueFd socket_;
  std::uint64_t requests_ = 0;
  std::map<std::uint64_t, Ended> ends_;  // by request
  std::optional<ProcessEnd> server_end_;
  OomKills oom_kills_;
  bool stopped_ = false;
};

/// The error for a worker that ended before it should: "worker 3 (pid 17, generation 0) killed by
/// signal 9 (SIGKILL)", followed by `detail` if it is not empty.
Error worker_died(const WorkerProcess& worker, const ProcessEnd& end, std::string_view detail = {});

}  // namespace energon
