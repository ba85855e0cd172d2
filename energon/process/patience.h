// How long to wait for another process that makes no progress.

#pragma once

#include <chrono>

#include "energon/process/wait.h"

namespace energon {

/// Counts the time of a wait in short looks, each at most twice as long as it was meant to be: time
/// in which this process was stopped (SIGSTOP, a frozen control group) is not the other's fault.
/// Not thread-safe.
class Patience {
 public:
  explicit Patience(std::chrono::milliseconds timeout);

  /// Begins a look: when it ends.
  Deadline look();
  /// After a look in which nothing happened. True: the timeout is over.
  bool is_over();
  /// There was progress: the timeout begins anew.
  void renew() { left_ = timeout_; }

 private:
  const std::chrono::nanoseconds timeout_;
  const std::chrono::nanoseconds longest_look_;
  std::chrono::nanoseconds left_;
  std::chrono::nanoseconds length_{};  // of the look
  Deadline begin_{};
};

}  // namespace energon
