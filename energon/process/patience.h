// Limits the wait for another process that makes no progress.

#pragma once

#include <chrono>

#include "energon/process/wait.h"

namespace energon {

/// Divides a wait into short looks and counts each look with at most twice its planned length. So
/// time in which this process itself was stopped (SIGSTOP, a frozen control group) is not counted
/// against the other process. Not thread-safe.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds timeout);

  /// Begins a look and returns its deadline.
  Deadline look();
  /// Called after a look in which nothing happened. Returns true if the timeout is over.
  bool is_over();
  /// Records progress: the timeout starts again.
  void renew() { left_ = timeout_; }

 private:
  const std::chrono::nanoseconds timeout_;
  const std::chrono::nanoseconds longest_look_;
  std::chrono::nanoseconds left_;
  std::chrono::nanoseconds length_{};  // planned length of the look
  Deadline begin_{};
};

}  // namespace energon
