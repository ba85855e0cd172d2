// CPU time and memory of running processes, from /proc.

#pragma once

#include <cstdint>
#include <optional>

namespace energon::cli {

struct ProcessUsage {
  double cpu_seconds = 0;  ///< user and system, since the process started
  /// Proportional set size: a page shared by n processes counts 1/n in each. Absent if the system
  /// does not report it.
  std::optional<std::uint64_t> pss_bytes;
};

/// Empty if there is no such process.
std::optional<ProcessUsage> usage_of(int pid);

}  // namespace energon::cli
