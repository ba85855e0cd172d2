// Counts the system calls of a body, in a child process that is traced.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

namespace energon::testing {

/// Runs `body` in a forked child and returns how many system calls it made, without those about its
/// memory and its threads. Nothing if the machine does not permit it to trace, or if `body` throws.
std::optional<std::int64_t> count_system_calls(const std::function<void()>& body);

}  // namespace energon::testing
