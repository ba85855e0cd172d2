// Compares the settings in a saved state with the current ones.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "energon/compat/worker_progress.h"

namespace energon {

/// Appends to `differences` a line with both values for every setting that is unknown, missing or
/// different. `saved` and `current` are objects; settings named in `ignored` may differ.
void compare_settings(const StateDict& saved, const StateDict& current,
                      const std::vector<std::string>& ignored,
                      std::vector<std::string>& differences);

/// Throws Error (kMismatch) with all differences, if there are any.
void refuse_differences(const std::vector<std::string>& differences);

/// An upper bound for the samples of a run, small enough to add counts without overflow.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;

/// The integer `name` in a state. Throws Error (kMismatch) if it is missing, not an integer,
/// negative or above kMostSamples.
std::int64_t count_in(const StateDict& state, const std::string& name);

}  // namespace energon
