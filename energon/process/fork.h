// The only fork() of the project, and the rules for the child.
//
// The parent may have any number of threads and may hold any lock, so the child
//   - keeps all signals blocked until all handlers are reset to the default. Then it ignores the
//     signals that are sent to all processes of a job, because the parent handles them (SIGINT,
//     SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU), and SIGPIPE and SIGXFSZ, so that the
//     system calls fail instead. Finally it unblocks all signals. The child therefore ends with
//     its parent, or by SIGKILL. Programs that it starts inherit the ignored signals;
//   - keeps the descriptors that it was given, 0, 1, 2, regular files and directories. Over all
//     others it puts placeholders (ForeignDescriptors);
//   - runs ForkHooks::child (fork_hooks.h);
//   - sets OpenMP to one thread before anything can enter a parallel region whose pool did not
//     survive the fork; it never touches CUDA;
//   - uses malloc (glibc's is safe after fork), but no other lock of the parent;
//   - runs nothing of an interpreter unless its hooks ran;
//   - never returns from its body: it leaves by _exit, without atexit handlers, static destructors
//     or flushing the parent's buffers. If an exception escapes the body, the exit code is 112.
// To fork later, after the parent has started threads, use the fork server.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/process/fork_hooks.h"
#include "energon/process/wait.h"
#include "io/file.h"

namespace energon {

// A process identified by its pidfd: it can be polled, and signals cannot reach another process
// that reused the pid.

/// How a process ended.
struct ProcessEnd {
  enum class Kind : std::uint8_t {
    kExited = 1,  ///< `value` is the exit code
    kKilled,      ///< `value` is the signal
    kUnknown,     ///< gone, but reaped elsewhere (ECHILD)
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

/// Exit code of a child whose body threw an exception.
inline constexpr int kExitException = 112;

struct ForkOptions {
  std::vector<int> keep = {};            ///< descriptors the child keeps, of any kind
  std::string process_name = "energon";  ///< shown by ps and top; at most 15 bytes
  ForkHooks hooks = {};                  ///< called around the fork
};

/// Forks. The child sets its signals, then its descriptors, runs hooks.child, then `body`, and
/// leaves by _exit(body()). The caller must reap the child. Throws Error: kResourceExhausted if the
/// system refuses another process or two descriptors for a moment, and those of
/// ProcessHandle::open(). Throws what hooks.before and hooks.parent throw; then there is no child.
ProcessHandle fork_child(const std::function<int()>& body, const ForkOptions& options);

// What a forked child does with the descriptors that it inherits but was not given.
//
// Closing them is wrong: the next file that the child opens gets such a number, and code of the
// user that still knows the number reads or writes that file. Keeping them open is wrong, too: a
// peer never sees the end of a pipe or a socket, a port stays in use, and a lifeline is held by the
// process that watches it. So
//   - regular files and directories stay as they are. They share their offset with the parent, and
//     a lock of flock() is held until the last process has closed the file;
//   - over everything else (sockets, pipes, devices, eventfds, pidfds, memfds, …) goes a
//     placeholder, which is an O_PATH descriptor of "/": the number stays taken, the other side
//     sees the end, and each use fails with EBADF.
// 0, 1 and 2 stay.

/// Made before the fork, which takes two descriptors until the object is destroyed. Move-only.
class ForeignDescriptors {
 public:
  /// Throws Error (kResourceExhausted) if no descriptor is left.
  static ForeignDescriptors prepare();

  /// In the child: puts placeholders over all descriptors that are not in `keep`. Never fails: a
  /// number that cannot be replaced is closed. Requires: the process has one thread.
  void replace(std::span<const int> keep);

 private:
  ForeignDescriptors(UniqueFd placeholder, UniqueFd spare)
      : placeholder_(std::move(placeholder)), spare_(std::move(spare)) {}

  UniqueFd placeholder_;
  UniqueFd spare_;  // so that a child at its limit can list its descriptors
};

}  // namespace energon
