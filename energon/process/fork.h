// The only fork() of the project, and the rules for the child.
//
// The parent may have any number of threads and may hold any lock, so the child
//   - keeps all signals blocked until all handlers are reset to the default. Then it ignores the
//     signals that are sent to all processes of a job, because the parent handles them (SIGINT,
//     SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU), and SIGPIPE and SIGXFSZ, so that the
//     system calls fail instead. Finally it unblocks all signals. The child therefore ends with
//     its parent, or by SIGKILL. Programs that it starts inherit the ignored signals;
//   - keeps the descriptors that it was given, 0, 1, 2, regular files and directories. Over all
//     others it puts placeholders (foreign_descriptors.h);
//   - runs ForkHooks::child (fork_hooks.h);
//   - sets OpenMP to one thread before anything can enter a parallel region whose pool did not
//     survive the fork; it never touches CUDA;
//   - uses malloc (glibc's is safe after fork), but no other lock of the parent;
//   - runs nothing of an interpreter unless its hooks ran;
//   - never returns from its body: it leaves by _exit, without atexit handlers, static destructors
//     or flushing the parent's buffers. If an exception escapes the body, the exit code is 112.
// To fork later, after the parent has started threads, use the fork server.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "energon/process/fork_hooks.h"
#include "energon/process/process_handle.h"

namespace energon {

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

}  // namespace energon
