// What a process uses: CPU time, memory and descriptors, from /proc.

#pragma once

#include <cstdint>

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

}  // namespace energon::bench
