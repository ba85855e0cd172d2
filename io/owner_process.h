// Checks that an object is used in the process that made it.
//
// A user may fork (multiprocessing) while a loader lives. The child then has a copy of every object
// of this library, over the same shared memory, and must not use it: it would steal samples and
// return slots twice. Objects that write to shared memory or own processes hold an OwnerProcess.

#pragma once

#include <cstdint>

namespace energon {

/// A check costs one relaxed load: a pthread_atfork handler counts forks in the child. Thread-safe.
class OwnerProcess {
 public:
  OwnerProcess();

  /// False in a forked child of the process that made this object.
  bool is_current() const noexcept;

  /// Throws Error (kCancelled, "`what` is used after fork …") in a forked child.
  void check(const char* what) const {
    if (!is_current()) {
      refuse(what);
    }
  }

 private:
  [[noreturn]] static void refuse(const char* what);

  std::uint64_t generation_;
};

}  // namespace energon
