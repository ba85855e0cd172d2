// The one blocking wait of the project: poll() on any of several descriptors, until a deadline.
//
// Time is CLOCK_MONOTONIC, so jumps of the wall clock have no effect. Every wait can end: a Wait
// has a deadline, and descriptors that become readable when the other side is gone. A WaitCheck
// also lets the outside end a wait of the trainer, and ProgressTimeout limits the wait for a
// process that makes no progress.

#pragma once

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <span>
#include <utility>

namespace energon {

/// A point on CLOCK_MONOTONIC (which is what steady_clock is on Linux).
using Deadline = std::chrono::steady_clock::time_point;

/// A deadline that never passes.
inline constexpr Deadline kNever = Deadline::max();

/// A deadline in the past: poll without waiting.
inline constexpr Deadline kNow = Deadline();

/// `duration` from now; kNever if the clock cannot represent that time, now if `duration` is
/// negative.
template <class Rep, class Period>
Deadline deadline_after(std::chrono::duration<Rep, Period> duration) {
  const Deadline now = std::chrono::steady_clock::now();
  if (duration <= duration.zero()) {
    return now;
  }
  // Compared in the caller's unit, because the largest value of a coarse unit overflows in
  // nanoseconds.
  const auto longest = std::chrono::floor<std::chrono::duration<Rep, Period>>(kNever - now);
  return duration >= longest ? kNever : now + duration;
}

/// How long a blocking call may wait, and what else ends the wait.
struct Wait {
  Deadline deadline = kNever;
  /// Descriptors that become readable or hang up when the other side is gone, such as its pidfd or
  /// a lifeline. Borrowed for the call.
  std::span<const int> peer_gone = {};
};

/// One descriptor of wait_any().
struct Waitable {
  int fd = -1;
  bool ready = false;           ///< set by wait_any()
  bool until_writable = false;  ///< wait for room to write instead of something to read
};

/// Waits until at least one descriptor is readable (or writable, if requested), hung up or in
/// error, and marks those that are. Returns false if the deadline passed first; a deadline in the
/// past polls once, without blocking. A signal does not end the wait. Throws Error: kIo if the
/// system call fails, kInternal for an invalid descriptor. Thread-safe.
bool wait_any(std::span<Waitable> descriptors, Deadline deadline);

/// Whether any of `descriptors` is ready now.
bool any_ready(std::span<const int> descriptors);

// Interrupts a wait of the trainer: by a function that is called during the wait, or by another
// thread that closes the loader.
//
// An interpreter notices Ctrl-C only when polled, so a wait polls often. Only a check that throws
// ends a wait this way; a signal does not.

/// Interval between checks during a wait.
inline constexpr std::chrono::milliseconds kCheckInterval{100};

/// For one thread at a time, except close() and is_closed(), which are thread-safe.
class WaitCheck {
 public:
  /// `check` may be empty. It is called by look() only, and may throw anything.
  explicit WaitCheck(std::function<void()> check) : check_(std::move(check)) {}

  /// The end of one step of a wait until `deadline`: no step is longer than kCheckInterval.
  static Deadline step(Deadline deadline);

  /// Called before each step of a wait. Calls the function if the last call was at least
  /// kCheckInterval ago. Throws what the function throws, and Error (kCancelled) after close();
  /// then has_ended_wait() is true.
  void look();
  /// The same without an interval, after a successful wait: an interrupt that arrived during the
  /// wait then ends this call rather than the use of the result.
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
  /// Rethrows what look() threw, even if stages in between converted the exception. Requires:
  /// called while an exception is handled, has_ended_wait().
  [[noreturn]] void rethrow() const;

 private:
  void look_if(bool is_due);

  const std::function<void()> check_;
  std::atomic<bool> is_closed_{false};
  bool has_ended_wait_ = false;
  std::exception_ptr thrown_;  // null for what is not a C++ exception, such as a cancelled thread
  Deadline next_ = kNow;
};

/// wait_any() in steps, with a look before each. `check` may be null; otherwise time in which this
/// process itself was stopped does not count.
bool wait_any(std::span<Waitable> descriptors, Deadline deadline, WaitCheck* check);

/// Divides a wait into short looks and counts each look with at most twice its planned length. So
/// time in which this process itself was stopped (SIGSTOP, a frozen control group) is not counted
/// against the other process. Not thread-safe.
class ProgressTimeout {
 public:
  explicit ProgressTimeout(std::chrono::milliseconds timeout);

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
