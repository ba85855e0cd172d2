// How long a thread was ready to run and got no core.

#pragma once

#include <chrono>
#include <optional>

namespace energon {

/// Of the calling thread, since it began. Nothing where the kernel does not say it
/// (/proc/thread-self/schedstat). Three system calls.
std::optional<std::chrono::nanoseconds> thread_cpu_wait();

}  // namespace energon
