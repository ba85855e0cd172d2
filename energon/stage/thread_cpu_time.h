// CPU time of one thread.

#pragma once

#include <chrono>

namespace energon {

/// Returns the CPU time that the calling thread has used so far. Makes one system call.
std::chrono::nanoseconds thread_cpu_time();

}  // namespace energon
