// Counts the system calls of a body, in a child process that is traced.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace energon::testing {

/// Runs `body` in a forked child and returns the number of its system calls, except those for
/// memory and threads. nullopt if the machine does not allow tracing, or if `body` throws.
std::optional<std::int64_t> count_system_calls(const std::function<void()>& body);

}  // namespace energon::testing
