// How children learn that the parent is gone.
//
// Two descriptors, made by the parent before the first fork: a pidfd of the parent, which fires
// when it ends, and the reading end of a close-on-exec pipe, which also fires when it execs.
// Workers watch the fork server's pidfd as well. PR_SET_PDEATHSIG is not used: it fires when the
// *thread* that forked ends.

#pragma once

#include <span>
#include <utility>
#include <vector>

#include "energon/process/process_handle.h"
#include "io/unique_fd.h"

namespace energon {

/// Exit code of a worker or fork server whose parent went away.
inline constexpr int kExitParentGone = 113;

/// In the parent, before the fork. The writing end never leaves the parent.
struct Lifeline {
  /// Throws Error (kResourceExhausted, kUnsupported).
  static Lifeline open();

  UniqueFd parent_pidfd;
  UniqueFd read_end;
  UniqueFd write_end;
};

/// In a child: who must be alive. Thread-safe once made.
class ParentWatch {
 public:
  explicit ParentWatch(std::vector<int> descriptors) : descriptors_(std::move(descriptors)) {}

  /// For Wait::peer_gone.
  std::span<const int> descriptors() const { return descriptors_; }
  /// True if the parent or the fork server is gone.
  bool gone() const;

  /// Blocks until the parent is gone, then leaves the process by _exit(kExitParentGone).
  [[noreturn]] void exit_when_gone() const;
  /// Runs exit_when_gone() in a detached thread with all signals blocked, so that the process ends
  /// even while user code hangs. Throws Error (kResourceExhausted) if no thread can be had.
  /// Requires: the process ends by _exit; the watch lives until then.
  void start_exit_thread() const;

 private:
  std::vector<int> descriptors_;
};

}  // namespace energon
