// How often the out-of-memory killer struck in the control group of this process.
//
// A process that it ends looks like one that somebody killed (SIGKILL). The group counts them:
// `oom_kill` in memory.events (cgroup v2) or memory.oom_control (v1).

#pragma once

#include <cstdint>
#include <string>

namespace energon {

/// Not thread-safe.
class OomKills {
 public:
  /// Finds the group of this process; mark(). `root` is the folder that has `proc` and `sys`: "/",
  /// or what a test made.
  explicit OomKills(const std::string& root = "/");

  /// Begins to count anew.
  void mark();
  /// Kills since the last mark(); 0 where no group tells.
  std::uint64_t since_mark() const;

  /// Where the group counts; empty where none does.
  const std::string& file() const { return file_; }

 private:
  std::string file_;
  std::uint64_t marked_ = 0;
};

}  // namespace energon
