// A process by its pidfd: no reuse of pids, pollable, signals never hit a stranger.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "energon/process/wait.h"
#include "io/unique_fd.h"

namespace energon {

/// How a process ended.
struct ProcessEnd {
  enum class Kind : std::uint8_t {
    kExited = 1,  ///< `value` is the exit code
    kKilled,      ///< `value` is the signal
    kUnknown,     ///< gone, but someone else took its status (ECHILD)
  };
  Kind kind = Kind::kUnknown;
  int value = 0;

  /// "exited with code 3", "killed by signal 9 (SIGKILL)", "ended with unknown status".
  std::string describe() const;
  bool operator==(const ProcessEnd&) const = default;
};

/// Move-only. Does not end or reap the process when destroyed.
class ProcessHandle {
 public:
  ProcessHandle() = default;
  /// Takes over a pidfd of `pid`.
  ProcessHandle(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  /// Requires: `pid` is the caller, or a child that only the caller reaps. Throws Error
  /// (kUnsupported) without pidfds (Linux before 5.4), kResourceExhausted, kIo.
  static ProcessHandle open(pid_t pid);

  bool valid() const { return pidfd_.valid(); }
  pid_t pid() const { return pid_; }
  /// Readable from the end of the process on, reaped or not.
  int fd() const { return pidfd_.get(); }

  bool ended() const;
  /// False: the deadline passed.
  bool wait_ended(Deadline deadline) const;
  /// False: it had ended. Throws Error (kIo) if not permitted.
  bool send_signal(int signal) const;
  /// Reaps a child that ended; nothing while it runs. kUnknown if it is not (or no longer) ours to
  /// reap. Throws Error (kUnsupported, kIo) if the system refuses to wait.
  std::optional<ProcessEnd> reap() const;

 private:
  pid_t pid_ = 0;
  UniqueFd pidfd_;
};

}  // namespace energon
