// Counts the allocations and the system calls of this program and its forked children.
//
// The program's own operator new, read(), ppoll() and so on are linked in the place of the C and
// C++ libraries'. They count, then do the same. Calls that libc makes inside itself are not seen.

#pragma once

#include <cstdint>

namespace energon::testing {

/// All counters are of this process and its children together, but `allocations`.
struct Calls {
  std::uint64_t allocations = 0;  ///< operator new, of this process
  std::uint64_t preads = 0;
  std::uint64_t opens = 0;  ///< but of /proc: how often the loader looks there is up to the clock
  std::uint64_t transport = 0;  ///< read, write, poll, ppoll, nanosleep and clock_nanosleep

  /// Since the program began.
  static Calls now();
};

/// What `run` did.
template <class Function>
Calls count_calls(const Function& run) {
  const Calls before = Calls::now();
  run();
  const Calls after = Calls::now();
  return {after.allocations - before.allocations, after.preads - before.preads,
          after.opens - before.opens, after.transport - before.transport};
}

}  // namespace energon::testing
