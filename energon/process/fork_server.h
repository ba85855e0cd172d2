// A small single-threaded child, forked when the loader is made, that forks the workers.
//
//   parent ──fork──> fork server ──fork──> worker 0 … N-1
//     │  kSpawn, kChunk…, kStop  ->  │          (SEQPACKET socket pair, fork_server_loop.h)
//     │  <-  kSpawned, kSpawnFailed, kExited
//
// A worker, including a replacement for a dead one, is therefore never forked from a process that
// has started threads, initialized CUDA or holds a lock. The fork server reaps its workers and
// reports how each ended. When the parent ends, the fork server kills its workers and exits.
// Workers end as soon as either process is gone, even in hanging user code
// (ParentWatch::start_exit_thread). If the fork server is killed, its workers end too, and spawn()
// throws Error (kWorkerDied). If it does not answer, because it is stopped or swapped out, calls
// end at their deadline. What fails while it starts a worker, such as a hook, fails that spawn()
// only. Signals that are sent to a whole job end neither workers nor fork server (fork.h): a worker
// is ended by stop(), by SIGKILL, or with the parent.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/process/fork.h"
#include "energon/process/fork_hooks.h"
#include "energon/process/wait.h"
#include "io/bytes.h"
#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {

// How children learn that the parent is gone.
//
// The parent makes two descriptors before the first fork: a pidfd of itself, which fires when it
// ends, and the reading end of a close-on-exec pipe, which also fires when it calls exec. Workers
// watch the fork server's pidfd as well. PR_SET_PDEATHSIG is not used: it fires when the *thread*
// that forked ends.

/// Exit code of a worker or fork server whose parent is gone.
inline constexpr int kExitParentGone = 113;

/// Made in the parent, before the fork. The writing end stays in the parent.
struct Lifeline {
  /// Throws Error (kResourceExhausted, kUnsupported).
  static Lifeline open();

  UniqueFd parent_pidfd;
  UniqueFd read_end;
  UniqueFd write_end;
};

/// In a child: watches the processes that must be alive. Thread-safe after construction.
class ParentWatch {
 public:
  explicit ParentWatch(std::vector<int> descriptors) : descriptors_(std::move(descriptors)) {}

  /// For Wait::peer_gone.
  std::span<const int> descriptors() const { return descriptors_; }
  /// Whether the parent or the fork server is gone.
  bool gone() const;

  /// Blocks until the parent is gone, then leaves the process by _exit(kExitParentGone).
  [[noreturn]] void exit_when_gone() const;
  /// Runs exit_when_gone() in a detached thread with all signals blocked, so that the process ends
  /// even while user code hangs. Throws Error (kResourceExhausted) if no thread can be started.
  /// Requires: the process ends by _exit, and this object lives until then.
  void start_exit_thread() const;

 private:
  std::vector<int> descriptors_;
};

// Counts kills by the out-of-memory killer in the control group of this process.
//
// A process ended by it looks like any process killed by SIGKILL, but the control group counts
// these kills: `oom_kill` in memory.events (cgroup v2) or memory.oom_control (v1).

/// Not thread-safe.
class OomKills {
 public:
  /// Finds the control group of this process and calls mark(). `root` is the directory of `proc`
  /// and `sys`: "/", or another one in tests.
  explicit OomKills(const std::string& root = "/");

  /// Restarts the count.
  void mark();
  /// Number of kills since the last mark(); 0 if no count is available.
  std::uint64_t since_mark() const;

  /// The file with the count, or "" if there is none.
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::uint64_t marked_ = 0;
};

struct ReceivedFrame;
enum class SocketStatus : std::uint8_t;

/// The arguments of a starting worker.
struct WorkerStart {
  int worker_id = 0;
  std::uint64_t generation = 0;        ///< 0 for the first worker with this id, then counting up
  ByteView payload;                    ///< valid as long as the worker runs
  std::vector<UniqueFd> descriptors;   ///< those of the request, in its order; may be moved out
  const ParentWatch* watch = nullptr;  ///< lives as long as the worker; its watchdog is running
};

/// Runs in the main thread of the worker. Returns the exit code.
using WorkerMain = std::function<int(WorkerStart&)>;

struct SpawnRequest {
  int worker_id = 0;
  std::uint64_t generation = 0;
  ByteView payload = {};              ///< any size; borrowed for the call
  std::vector<int> descriptors = {};  ///< at most 64; the worker gets duplicates
};

/// The parent's handle of a worker. Move-only. Destroying it does not end the worker.
struct WorkerProcess {
  int worker_id = 0;
  std::uint64_t generation = 0;
  std::uint64_t request = 0;  ///< number of the spawn() that made it
  ProcessHandle process;

  /// Becomes readable when the worker ends. For Wait::peer_gone.
  int fd() const { return process.fd(); }
};

struct ForkServerOptions {
  /// Descriptors of the parent that the fork server and every worker keep.
  std::vector<int> keep_descriptors = {};
  /// Called around the fork of the fork server, and in it around that of each worker.
  ForkHooks hooks = {};
  /// How long the destructor waits for workers to end by themselves before they are killed.
  std::chrono::milliseconds stop_grace = std::chrono::milliseconds(200);
  /// Directory of `proc` and `sys`, which are used to detect out-of-memory kills. Tests set their
  /// own.
  std::string system_root = "/";
};

/// Returns what the caller knows about the end of a worker, for the error message.
using EndDetail = std::function<std::string(const ProcessEnd&)>;

/// Thread-safe. A waiting call polls its `check`, if any, every kCheckInterval and throws what the
/// check throws. In a forked child of the parent, spawn(), exit_of() and death_of() throw Error
/// (kCancelled), and forget(), stop() and the destructor do nothing.
class ForkServer {
 public:
  /// Forks the server. `main` and everything it captured are copied by this fork, but not the
  /// memory of other channels (ParentEndpoint), which cannot be read in the fork server and its
  /// workers. Throws Error: kResourceExhausted (processes, descriptors), kUnsupported (no pidfds).
  /// Throws what the hooks throw.
  explicit ForkServer(WorkerMain main, ForkServerOptions options = {});
  /// stop(options.stop_grace).
  ~ForkServer();
  ForkServer(const ForkServer&) = delete;
  ForkServer& operator=(const ForkServer&) = delete;

  /// Starts a worker. Throws Error with the worker id: kResourceExhausted if the system refuses
  /// another process, what a hook threw (kUserFunction unless it was an Error), kTimeout,
  /// kWorkerDied if the fork server is gone. After kTimeout and after a throw of `check` the worker
  /// may still start: the caller closes its channel.
  WorkerProcess spawn(const SpawnRequest& request, Deadline deadline, WaitCheck* check = nullptr);

  /// Waits for the end of `worker` and returns how it ended; kUnknown if the fork server died
  /// before it could report. Throws Error (kTimeout) if at the deadline the worker still runs, or
  /// the fork server has not reported its end.
  ProcessEnd exit_of(const WorkerProcess& worker, Deadline deadline, WaitCheck* check = nullptr);

  /// Returns the Error for a worker that ended unexpectedly; waits for its end like exit_of(). It
  /// is the death of the fork server if that came first; else the Error that the worker's main
  /// function threw, with its code and context; else worker_died() with the text of `detail` and,
  /// where they apply, a note about the out-of-memory killer or about a fork server that does not
  /// answer. Throws Error (kTimeout) if the worker still runs at the deadline.
  Error death_of(const WorkerProcess& worker, Deadline deadline, const EndDetail& detail = {},
                 WaitCheck* check = nullptr);

  /// Drops what is kept about `worker`. Requires: no exit_of() or death_of() of it follows.
  void forget(const WorkerProcess& worker);

  /// Waits up to `grace` for workers to end by themselves, kills the rest, then ends and reaps the
  /// fork server. Takes at most `grace` plus two seconds. Idempotent.
  void stop(std::chrono::milliseconds grace);

  /// Becomes readable when the fork server is gone. For Wait::peer_gone.
  int fd() const { return server_.fd(); }
  pid_t pid() const { return server_.pid(); }
  bool alive() const { return !server_.ended(); }

 private:
  /// What the fork server reported about a worker.
  struct Ended {
    ProcessEnd end;
    std::optional<Error> thrown = std::nullopt;
  };

  void send_request(const SpawnRequest& request, std::uint64_t number, Deadline deadline,
                    WaitCheck* check) ENERGON_REQUIRES(mutex_);
  WorkerProcess await_start(const SpawnRequest& request, std::uint64_t number, Deadline deadline,
                            WaitCheck* check) ENERGON_REQUIRES(mutex_);
  std::optional<WorkerProcess> started_worker(const SpawnRequest& request, ReceivedFrame& answer)
      ENERGON_REQUIRES(mutex_);
  SocketStatus receive(ReceivedFrame& received, Deadline deadline, WaitCheck* check)
      ENERGON_REQUIRES(mutex_);
  const Ended* report_on(const WorkerProcess& worker, Deadline deadline, WaitCheck* check)
      ENERGON_REQUIRES(mutex_);
  Error server_gone(int worker_id) ENERGON_REQUIRES(mutex_);
  std::string note_of(const ProcessEnd& end) const ENERGON_REQUIRES(mutex_);

  const OwnerProcess owner_;
  const ForkServerOptions options_;
  Lifeline lifeline_;
  ProcessHandle server_;

  Mutex mutex_;  // held during a whole exchange of messages on the socket
  UniqueFd socket_ ENERGON_GUARDED_BY(mutex_);
  std::uint64_t requests_ ENERGON_GUARDED_BY(mutex_) = 0;
  // By request, for all workers except those that failed to start or were forgotten; an entry is
  // empty while its worker runs.
  std::map<std::uint64_t, std::optional<Ended>> ends_ ENERGON_GUARDED_BY(mutex_);
  std::optional<ProcessEnd> server_end_ ENERGON_GUARDED_BY(mutex_);
  OomKills oom_kills_ ENERGON_GUARDED_BY(mutex_);
  bool stopped_ ENERGON_GUARDED_BY(mutex_) = false;
};

/// The Error for a worker that ended unexpectedly: "worker 3 (pid 17, generation 0) killed by
/// signal 9 (SIGKILL)", followed by `detail` if it is not empty.
Error worker_died(const WorkerProcess& worker, const ProcessEnd& end, std::string_view detail = {});

}  // namespace energon
