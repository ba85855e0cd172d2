// Runs one job per shard on a few threads. Private to io.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace energon {

/// The number of threads to use: `wanted`, else one per core and at most 16; never more than
/// `jobs`, at least 1. Throws Error (kInvalidArgument) if `wanted` is below 1.
int thread_count(std::optional<int> wanted, std::int64_t jobs);

/// Calls body(i) for each i in [0, jobs), on up to `threads` threads, which end before this
/// returns. Returns the exceptions of the jobs: one entry per job, null if it threw nothing.
std::vector<std::exception_ptr> parallel_for(std::int64_t jobs, int threads,
                                             const std::function<void(std::int64_t)>& body);

/// Throws the first of `errors`, if there is one. If there are more, its message gives their
/// number.
void rethrow_first(const std::vector<std::exception_ptr>& errors);

}  // namespace energon
