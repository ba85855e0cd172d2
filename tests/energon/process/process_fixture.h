// Checks that each case that forks restores descriptors, threads, children, mappings, and names in
// /dev/shm.

#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include "energon/process/wait.h"

namespace energon::testing {

class ProcessFixture {
 public:
  ProcessFixture();
  /// CHECKs that everything is restored.
  ~ProcessFixture();

 protected:
  struct Resources {
    std::size_t descriptors = 0;
    std::size_t threads = 0;
    std::size_t mappings = 0;        // of our shared memory
    std::vector<std::string> names;  // in /dev/shm
    bool operator==(const Resources&) const = default;
  };
  static Resources count();

 private:
  Resources before_;
};

/// Polls `condition` until it holds; returns false after `limit`, which by default only a hang
/// reaches. For events without a descriptor. A poll that takes longer than 10 ms counts as 10 ms:
/// while this process did not run, the processes it waits for may not have run, either.
template <typename Condition>
bool eventually(const Condition& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(20)) {
  constexpr std::chrono::nanoseconds kLongestPoll = std::chrono::milliseconds(10);
  std::chrono::nanoseconds waited{0};
  auto last = std::chrono::steady_clock::now();
  while (true) {
    const bool is_last = waited > limit;
    if (condition()) {
      return true;
    }
    if (is_last) {
      return false;
    }
    wait_any({}, deadline_after(std::chrono::milliseconds(1)));
    const auto now = std::chrono::steady_clock::now();
    waited += std::min<std::chrono::nanoseconds>(now - last, kLongestPoll);
    last = now;
  }
}

/// True if this process has no child, running or zombie. Reaps zombies first if asked.
bool no_children(bool reap = false);

/// A deadline that only a hang reaches.
inline Deadline hang_limit() { return deadline_after(std::chrono::seconds(60)); }

}  // namespace energon::testing
