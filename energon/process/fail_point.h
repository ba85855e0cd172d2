// Named places at which a test can make a process fail.
//
// Compiled in only if ENERGON_FAIL_POINTS is defined (developer builds). Otherwise the macro is
// empty and arming throws. An armed point is process state, inherited by fork: arm it in the
// process that is to fail.
//
// Sites of this folder:
//   worker.init                worker forked, no user code has run
//   arena.acquire              before a slot is taken
//   slot.write                 tests call it while they fill a slot
//   ring.before_publish        unit written, not visible
//   ring.after_publish         unit visible, reader not woken
//   checkpoint.half_written    first half of a checkpoint stored
//   command.received           tests call it between reading and answering a command
//   waiting.for_space          about to sleep on a full ring or arena

#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

namespace energon {

enum class FailAction : std::uint8_t {
  kKill = 1,  ///< sends SIGKILL to its own process
  kAbort,     ///< raises SIGABRT
  kExit,      ///< calls _exit(0), which looks like success
  kThrow,     ///< throws Error (kInternal)
  kHang,      ///< loops forever
};

/// Makes the `nth` passage of `site` from now on (counted from 1) in this process perform `action`,
/// once. Replaces the previously armed point. Throws Error (kUnsupported) if fail points are not
/// compiled in.
void arm_fail_point(std::string_view site, FailAction action, std::uint64_t nth = 1);

/// Disarms the armed point, if any.
void disarm_fail_point() noexcept;

/// Whether this library was built with fail points.
bool has_fail_points() noexcept;

namespace fail_point_detail {
extern std::atomic<bool> armed;
void pass(std::string_view site);
}  // namespace fail_point_detail

}  // namespace energon

#ifdef ENERGON_FAIL_POINTS
// Relaxed: only tests arm a point, before the process reaches the site.
#define ENERGON_FAIL_POINT(site)                                                          \
  do {                                                                                    \
    if (::energon::fail_point_detail::armed.load(std::memory_order_relaxed)) [[unlikely]] \
      ::energon::fail_point_detail::pass(site);                                           \
  } while (false)
#else
#define ENERGON_FAIL_POINT(site) \
  do {                           \
  } while (false)
#endif
