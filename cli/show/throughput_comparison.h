// Compares two results of energon bench.

#pragma once

#include <string>
#include <vector>

#include "cli/show/saved_throughput.h"

namespace energon::cli {

/// One text for each setting that differs, such as "--num-workers is 1 in a.json and 2 in b.json".
std::vector<std::string> different_settings(const SavedThroughput& first,
                                            const SavedThroughput& second);

/// A table with the medians of both, their ranges and the ratio of the second to the first, and
/// whether the ranges overlap; above it what differs in settings and machines. If they overlap, or
/// one of them has a single repetition, the text claims no difference.
std::string comparison_text(const SavedThroughput& first, const SavedThroughput& second);

}  // namespace energon::cli
