// How children learn that the parent is gone.
//
// The parent makes two descriptors before the first fork: a pidfd of itself, which fires when it
// ends, and the reading end of a close-on-exec pipe, which also fires when it calls exec. Workers
// watch the fork server's pidfd as well. PR_SET_PDEATHSIG is not used: it fires when the *thread*
// that forked ends.

#pragma once

#include <span>
#include <utility>
#include <vector>

#include "energon/process/process_handle.h"
#include "io/file.h"

namespace energon {

/// Exit code of a worker or fork server whose parent is gone.
inline constexpr int kExitParentGone = 113;

/// Made in the parent, before the fork. The writing end stays in the parent.
struct Lifeline {
  /// Throws Error (kResourceExhausted, kUnsupported).
  static Lifeline open();

  UniqueFd parent_pidfd;
  UniqueFd read_end;
  UniqueFd write_end;
};

/// In a child: watches the processes that must be alive. Thread-safe after construction.
class ParentWatch {
 public:
  explicit ParentWatch(std::vector<int> descriptors) : descriptors_(std::move(descriptors)) {}

  /// For Wait::peer_gone.
  std::span<const int> descriptors() const { return descriptors_; }
  /// Whether the parent or the fork server is gone.
  bool gone() const;

  /// Blocks until the parent is gone, then leaves the process by _exit(kExitParentGone).
  [[noreturn]] void exit_when_gone() const;
  /// Runs exit_when_gone() in a detached thread with all signals blocked, so that the process ends
  /// even while user code hangs. Throws Error (kResourceExhausted) if no thread can be started.
  /// Requires: the process ends by _exit, and this object lives until then.
  void start_exit_thread() const;

 private:
  std::vector<int> descriptors_;
};

}  // namespace energon
