// How many cores this process may use.

#pragma once

namespace energon {

/// Number of CPUs in the affinity mask of the calling thread, at least 1. Limits of CPU time (a
/// container's quota) are not counted. Thread-safe.
int usable_cpus();

}  // namespace energon
