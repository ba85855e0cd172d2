// The fork server's own side: the process behind ForkServer.

#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "energon/process/fork_protocol.h"
#include "energon/process/fork_server.h"
#include "energon/process/last_words.h"
#include "energon/process/liveness.h"
#include "energon/process/process_handle.h"
#include "io/error.h"

namespace energon {

/// Runs in the only thread of the fork server. Owns the workers: only this class forks and reaps
/// them, and no worker is left when run() returns.
class ForkServerLoop {
 public:
  /// The descriptors must be among those that the fork kept. `main` and `options` must outlive the
  /// loop.
  ForkServerLoop(const WorkerMain& main, int socket, std::vector<int> parent_descriptors,
                 const ForkServerOptions& options);

  /// Runs until the parent stops it (returns 0) or is gone (returns kExitParentGone).
  int run();

 private:
  struct Worker {
    Frame frame;  // the frame of its request
    ProcessHandle process;
    LastWords last_words;
  };
  /// A kSpawn whose chunks are still coming.
  struct Request {
    Frame frame;
    std::vector<std::byte> payload;
    std::vector<UniqueFd> descriptors;
  };
  /// kSpawned carries the pidfd of its worker, kSpawnFailed an Error, kExited the last words.
  struct Reply {
    Frame frame;
    int pidfd = UniqueFd::kInvalid;
    std::string message = {};
  };

  void wait();
  bool receive_all();
  void handle(ReceivedFrame received);
  void take(ReceivedFrame received);
  void refuse(Frame frame, const Error& error);
  void spawn();
  int run_worker(Request& request, const LastWords& last_words);
  void reap_ended();
  void flush();
  void kill_all();

  const WorkerMain& main_;
  const int socket_;
  const ForkServerOptions& options_;
  const ProcessHandle self_;
  const ParentWatch watch_;

  std::map<std::uint64_t, Worker> workers_;  // by request
  std::optional<Request> pending_;
  std::deque<Reply> replies_;  // not sent yet
  bool stopping_ = false;
  Deadline kill_at_ = kNever;
};

}  // namespace energon
