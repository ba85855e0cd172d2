// Compares the settings that a state was saved under with those it is loaded under.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "energon/protocols/worker_progress.h"

namespace energon {

/// Appends a line for every setting that is unknown, missing or another, with both values. Both are
/// objects; those named in `ignored` may differ.
void compare_settings(const StateDict& saved, const StateDict& current,
                      const std::vector<std::string>& ignored,
                      std::vector<std::string>& differences);

/// Throws Error (kMismatch) that lists all differences, if there are any.
void refuse_differences(const std::vector<std::string>& differences);

/// More samples than any run streams, few enough that counts can be added without overflow.
inline constexpr std::int64_t kMostSamples = std::int64_t{1} << 53;

/// The integer `name` of a state. Throws Error (kMismatch) if it is missing, none, negative or
/// above kMostSamples.
std::int64_t count_in(const StateDict& state, const std::string& name);

}  // namespace energon
