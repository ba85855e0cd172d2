// What the command thread of a worker tells its main thread: the epoch that may start, why it can
// serve no more commands, and the end.

#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "io/concurrency.h"
#include "io/error.h"

namespace energon {

/// start_epoch() and fail() are called by the command thread, check() and the waits by the main
/// thread, close() and is_closed() by both.
class EpochGate {
 public:
  void start_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    epoch_ = epoch;
    changed_.notify_all();
  }
  /// Makes check() and wait_for_epoch() throw `error` from now on.
  void fail(Error error) {
    const MutexLock lock(mutex_);
    failure_ = std::move(error);
    changed_.notify_all();
  }
  void close() {
    const MutexLock lock(mutex_);
    closed_ = true;
    changed_.notify_all();
  }

  bool is_closed() {
    const MutexLock lock(mutex_);
    return closed_;
  }

  /// Throws the Error of the command thread, if it has failed.
  void check() {
    const MutexLock lock(mutex_);
    throw_if_failed();
  }
  /// Waits until epoch `epoch` may start. Returns false if the channel was closed. Throws as
  /// check().
  bool wait_for_epoch(std::int64_t epoch) {
    const MutexLock lock(mutex_);
    while (!closed_ && !failure_ && epoch_ < epoch) {
      changed_.wait(mutex_);
    }
    throw_if_failed();
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
  void throw_if_failed() const ENERGON_REQUIRES(mutex_) {
    if (failure_) {
      throw *failure_;
    }
  }

  Mutex mutex_;
  Condition changed_;
  std::int64_t epoch_ ENERGON_GUARDED_BY(mutex_) = 0;
  std::optional<Error> failure_ ENERGON_GUARDED_BY(mutex_);
  bool closed_ ENERGON_GUARDED_BY(mutex_) = false;
};

}  // namespace energon
