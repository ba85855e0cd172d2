// CPU time and memory of running processes, from /proc.

#pragma once

#include <cstdint>
#include <optional>

namespace energon::cli {

struct ProcessUsage {
  double cpu_seconds = 0;  ///< user and system, since the process began
  /// Proportional set size: pages shared by n processes count 1/n in each. Absent where the system
  /// does not tell.
  std::optional<std::uint64_t> pss_bytes;
};

/// Nothing if there is no such process.
std::optional<ProcessUsage> usage_of(int pid);

}  // namespace energon::cli
