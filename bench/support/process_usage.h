// What a process uses: CPU time, memory and descriptors, from /proc; and how these develop while it
// runs.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/support/report.h"

namespace energon::bench {

struct ProcessMemory {
  /// Heap and stacks; pages that are the same as those of the process it was forked from count in
  /// part (Pss_Anon).
  std::int64_t own_bytes = 0;
  /// Pages of shared memory that it has touched, such as arenas (RssShmem).
  std::int64_t shared_bytes = 0;
};

/// Throw Error (kNotFound) if there is no such process, or its files cannot be read.
ProcessMemory memory_of(int pid);
std::int64_t open_files_of(int pid);
/// User and system time, in the kernel's ticks of 10 ms or less.
std::int64_t cpu_ticks_of(int pid);

/// One process that is looked at again and again.
class MemoryLog {
 public:
  MemoryLog(std::string name, int pid) : name_(std::move(name)), pid_(pid) {}

  /// Looks at the process now. Throws Error (kNotFound) if it has ended.
  void look();

  /// Adds own memory, shared memory and descriptors over time, with the medians of the four
  /// quarters; and as targets, that the last quarter has at most `growth` times the memory of the
  /// second, and not more descriptors. Requires: look() was called at least four times.
  void report(double growth, Report& report) const;

 private:
  const std::string name_;
  const int pid_;
  std::vector<double> own_bytes_;
  std::vector<double> shared_bytes_;
  std::vector<double> files_;
};

/// The medians of the first, second, third and last quarter of the values. Requires: at least four.
std::vector<double> quarters_of(const std::vector<double>& values);

}  // namespace energon::bench
