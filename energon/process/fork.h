// The only fork() of the project, and its rules.
//
// The parent may have any number of threads and may hold any lock, so the child
//   - runs with all signals blocked until its handlers are reset to the default; then those that
//     are sent to all processes of a job are ignored, as they are the parent's business (SIGINT,
//     SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU), and so are SIGPIPE and SIGXFSZ, which
//     are errors of calls; the mask is emptied. So the child ends with its parent, or by SIGKILL.
//     A program that the child starts inherits what is ignored;
//   - closes every descriptor it was not given, except 0, 1, 2: an object of the parent that owns
//     another descriptor must not be used in the child, it opens its own files;
//   - sets OpenMP to one thread before anything can enter a parallel region whose pool did not
//     survive the fork; it never touches CUDA;
//   - uses malloc (glibc's is safe after fork) but no other lock of the parent;
//   - runs no Python unless the interpreter's fork hooks ran;
//   - never returns from its body: it leaves by _exit, without atexit handlers, static destructors
//     or flushing the parent's buffers. An exception that escapes the body is exit code 112.
// To fork later, from a parent that has grown threads, there is the fork server.

#pragma once

#include <functional>
#include <string>
#include <vector>

#include "energon/process/process_handle.h"

namespace energon {

/// Exit code of a child whose body threw.
inline constexpr int kExitException = 112;

struct ForkOptions {
  std::vector<int> keep = {};            ///< descriptors the child keeps besides 0, 1, 2
  std::string process_name = "energon";  ///< shown by ps and top; at most 15 bytes
};

/// Forks; the child runs `body` and leaves by _exit(body()). Throws Error (kResourceExhausted) if
/// the system refuses another process. The caller reaps the child.
ProcessHandle fork_child(const std::function<int()>& body, const ForkOptions& options);

}  // namespace energon
