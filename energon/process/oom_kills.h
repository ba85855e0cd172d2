// Counts kills by the out-of-memory killer in the control group of this process.
//
// A process ended by it looks like any process killed by SIGKILL, but the control group counts
// these kills: `oom_kill` in memory.events (cgroup v2) or memory.oom_control (v1).

#pragma once

#include <cstdint>
#include <string>

namespace energon {

/// Not thread-safe.
class OomKills {
 public:
  /// Finds the control group of this process and calls mark(). `root` is the directory of `proc`
  /// and `sys`: "/", or another one in tests.
  explicit OomKills(const std::string& root = "/");

  /// Restarts the count.
  void mark();
  /// Number of kills since the last mark(); 0 if no count is available.
  std::uint64_t since_mark() const;

  /// The file with the count; empty if there is none.
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::uint64_t marked_ = 0;
};

}  // namespace energon
