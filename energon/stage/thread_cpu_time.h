// CPU time of one thread, and how long it was ready to run but had no core.

#pragma once

#include <chrono>
#include <optional>

namespace energon {

/// Returns the CPU time that the calling thread has used so far. Makes one system call.
std::chrono::nanoseconds thread_cpu_time();

/// Returns how long the calling thread was ready to run but had no core since it started, or
/// nullopt if the kernel does not report it (/proc/thread-self/schedstat). Makes three system
/// calls.
std::optional<std::chrono::nanoseconds> thread_cpu_wait();

}  // namespace energon
