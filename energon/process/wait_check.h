// Ends a wait of the trainer from outside: by a function of its own that is called meanwhile, or by
// another thread that closes the loader.
//
// An interpreter learns of Ctrl-C only if it is asked, so a wait asks it often. Nothing but a check
// that throws ends a wait this way: a signal does not.

#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <span>
#include <utility>

#include "energon/process/wait.h"

namespace energon {

/// How long a wait goes on without a look.
inline constexpr std::chrono::milliseconds kCheckInterval{100};

/// For one thread at a time, but close() and is_closed() for any.
class WaitCheck {
 public:
  /// `check` may be empty. It is called by look() only, and may throw anything.
  explicit WaitCheck(std::function<void()> check) : check_(std::move(check)) {}

  /// The end of one step of a wait until `deadline`: no step is longer than kCheckInterval.
  static Deadline step(Deadline deadline);

  /// Called before each step of a wait. Calls the function if the last call is kCheckInterval ago.
  /// Throws what it throws, and Error (kCancelled) after close(); then has_ended_wait() holds.
  void look();
  /// The same at once, after a wait whose event has come: what arrived during the wait then ends
  /// the call, and not what the caller does with the result.
  void look_after_wait();

  /// Makes each look() throw from now on. Never blocks.
  void close() noexcept { is_closed_.store(true, std::memory_order_release); }
  bool is_closed() const noexcept { return is_closed_.load(std::memory_order_acquire); }

  /// Called at the beginning of a call that may wait.
  void begin() noexcept {
    has_ended_wait_ = false;
    thrown_ = nullptr;
  }
  /// Whether look() has thrown since begin().
  bool has_ended_wait() const noexcept { return has_ended_wait_; }
  /// Throws again what look() threw, whatever the stages on the way made of it. Requires: called
  /// where an exception is handled, has_ended_wait().
  [[noreturn]] void rethrow() const;

 private:
  void look_if(bool is_due);

  const std::function<void()> check_;
  std::atomic<bool> is_closed_{false};
  bool has_ended_wait_ = false;
  std::exception_ptr thrown_;  // null for what is no C++ exception, such as a cancelled thread
  Deadline next_ = kNow;
};

/// wait_any() in steps, with a look before each. `check` may be null; otherwise time in which this
/// process itself was stopped does not count.
bool wait_any(std::span<Waitable> descriptors, Deadline deadline, WaitCheck* check);

}  // namespace energon
