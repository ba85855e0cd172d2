// Counts the allocations and the system calls of this program and its forked children.
//
// The program's own operator new, read(), ppoll() and so on replace those of the C and C++
// libraries at link time. They count, then do the same. Calls inside libc itself are not counted.

#pragma once

#include <cstdint>

namespace energon::testing {

/// All counters except `allocations` cover this process and its children.
struct Calls {
  std::uint64_t allocations = 0;  ///< operator new, in this process only
  std::uint64_t preads = 0;
  std::uint64_t opens = 0;      ///< except of /proc, where the loader's accesses depend on time
  std::uint64_t transport = 0;  ///< read, write, poll, ppoll, nanosleep and clock_nanosleep

  /// Since the program began.
  static Calls now();
};

/// The calls that `run` made.
template <class Function>
Calls count_calls(const Function& run) {
  const Calls before = Calls::now();
  run();
  const Calls after = Calls::now();
  return {after.allocations - before.allocations, after.preads - before.preads,
          after.opens - before.opens, after.transport - before.transport};
}

}  // namespace energon::testing
