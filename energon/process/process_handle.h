// A process identified by its pidfd: it can be polled, and signals cannot reach another process
// that reused the pid.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

#include "energon/process/wait.h"
#include "io/file.h"

namespace energon {

/// How a process ended.
struct ProcessEnd {
  enum class Kind : std::uint8_t {
    kExited = 1,  ///< `value` is the exit code
    kKilled,      ///< `value` is the signal
    kUnknown,     ///< gone, but its status was taken elsewhere (ECHILD)
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
  /// Takes ownership of a pidfd of `pid`.
  ProcessHandle(pid_t pid, UniqueFd pidfd) : pid_(pid), pidfd_(std::move(pidfd)) {}

  /// Requires: `pid` is the caller, or a child that only the caller reaps. Throws Error:
  /// kUnsupported if there are no pidfds (Linux before 5.4), kResourceExhausted, kIo.
  static ProcessHandle open(pid_t pid);

  bool valid() const { return pidfd_.valid(); }
  pid_t pid() const { return pid_; }
  /// Becomes readable when the process ends, whether or not it is reaped.
  int fd() const { return pidfd_.get(); }

  bool ended() const;
  /// Waits for the end of the process. Returns false if the deadline passed first.
  bool wait_ended(Deadline deadline) const;
  /// Returns false if the process has already ended. Throws Error (kIo) if not permitted.
  bool send_signal(int signal) const;
  /// Reaps an ended child. Returns nullopt while it runs, and kUnknown if it is not (or no longer)
  /// a child that this process can reap. Throws Error (kUnsupported, kIo) if the wait fails.
  std::optional<ProcessEnd> reap() const;

 private:
  pid_t pid_ = 0;
  UniqueFd pidfd_;
};

}  // namespace energon
