// Named places at which a test can make a process fail.
//
// Compiled in only where ENERGON_FAIL_POINTS is defined (developer builds); elsewhere the macro is
// nothing and arming throws. An armed point is process state: it is inherited by fork, so arm in
// the process that shall fail.
//
// Sites of this folder:
//   worker.init                worker forked, nothing of the user has run
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
  kKill = 1,  ///< SIGKILL to the own process
  kAbort,     ///< SIGABRT
  kExit,      ///< _exit(0), which looks like success
  kThrow,     ///< Error (kInternal)
  kHang,      ///< spins for ever
};

/// From now on the `nth` (from 1) passage of `site` in this process does `action`, once. Replaces
/// what was armed before. Throws Error (kUnsupported) if fail points are not compiled in.
void arm_fail_point(std::string_view site, FailAction action, std::uint64_t nth = 1);

/// Disarms.
void disarm_fail_point() noexcept;

/// True if this library was built with fail points.
bool has_fail_points() noexcept;

namespace fail_point_detail {
extern std::atomic<bool> armed;
void pass(std::string_view site);
}  // namespace fail_point_detail

}  // namespace energon

#ifdef ENERGON_FAIL_POINTS
// Relaxed: only tests arm, before the process runs into the site.
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
