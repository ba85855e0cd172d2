// How long a thread was ready to run but had no core.

#pragma once

#include <chrono>
#include <optional>

namespace energon {

/// Returns this time for the calling thread since its start, or nullopt if the kernel does not
/// report it (/proc/thread-self/schedstat). Makes three system calls.
std::optional<std::chrono::nanoseconds> thread_cpu_wait();

}  // namespace energon
