// What must be as before after every case that forks: descriptors, threads, children, mappings,
// names in /dev/shm.

#pragma once

#include <string>
#include <vector>

#include "energon/process/wait.h"

namespace energon::testing {

class ProcessFixture {
 public:
  ProcessFixture();
  /// CHECKs that everything is back, within a second.
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

/// Polls `condition` until it holds; false after `limit`. For things no descriptor tells.
template <typename Condition>
bool eventually(const Condition& condition,
                std::chrono::milliseconds limit = std::chrono::seconds(2)) {
  const Deadline deadline = deadline_after(limit);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) {
      return false;
    }
    wait_any({}, deadline_after(std::chrono::milliseconds(1)));
  }
  return true;
}

/// True if this process has no child, running or zombie. Reaps zombies first if asked.
bool no_children(bool reap = false);

/// A deadline that only a hang reaches.
inline Deadline hang_limit() { return deadline_after(std::chrono::seconds(20)); }

}  // namespace energon::testing
