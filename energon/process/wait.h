// The one blocking wait of the project: poll() on any of several descriptors, until a deadline.
//
// Time is CLOCK_MONOTONIC, so jumps of the wall clock have no effect. Every wait can end: a Wait
// has a deadline, and descriptors that become readable when the other side is gone.

#pragma once

#include <chrono>
#include <span>

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

}  // namespace energon
