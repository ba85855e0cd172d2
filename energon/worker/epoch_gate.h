// What the command thread of a worker tells its main thread: the epoch that may start, and the end.

#pragma once

#include <cstdint>

#include "io/mutex.h"

namespace energon {

/// start_epoch() and close() are called by the command thread, the waits by the main thread.
class EpochGate {
 public:
  void start_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    epoch_ = epoch;
    changed_.notify_all();
  }
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  /// Waits until epoch `epoch` may start. Returns false if the channel was closed.
  bool wait_for_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    while (!closed_ && epoch_ < epoch) {
      changed_.wait(mutex_);
    }
    return !closed_;
  }
  /// Waits until the channel is closed.
  void wait_for_close() {
    const MutexLock lock(mutex_);
    while (!closed_) {
      changed_.wait(mutex_);
    }
  }

 private:
  Mutex mutex_;
  Condition changed_;
  std::int64_t epoch_ ENERGON_GUARDED_BY(mutex_) = 0;
  bool closed_ ENERGON_GUARDED_BY(mutex_) = false;
};

}  // namespace energon
