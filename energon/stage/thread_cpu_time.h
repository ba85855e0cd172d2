// The CPU's time of one thread.

#pragma once

#include <chrono>

namespace energon {

/// What the calling thread has used so far. One system call.
std::chrono::nanoseconds thread_cpu_time();

}  // namespace energon
