// Runs a body in a forked child and reports how it ended.
//
// Catch2's assertions are not fork-safe. So children return an exit code or write to a pipe, and
// only the parent asserts.

#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>

namespace energon::testing {

struct ChildResult {
  bool exited = false;  ///< false if killed by `signal`
  int exit_code = -1;
  int signal = 0;
  bool timed_out = false;  ///< exceeded the limit and was killed by the runner
};

/// Forks, runs `body` in the child and ends the child with _exit(body()). An escaping exception
/// gives exit code 99. A sanitizer build checks for leaks before the child ends (exit code 98),
/// because _exit() skips that check. Kills the child after `limit`.
ChildResult run_in_child(const std::function<int()>& body,
                         std::chrono::milliseconds limit = std::chrono::seconds(180));

/// The two halves of run_in_child(), for several children at once: start_child() forks and returns
/// immediately, await_child() waits for such a child.
pid_t start_child(const std::function<int()>& body);
ChildResult await_child(pid_t child, std::chrono::milliseconds limit);

}  // namespace energon::testing
