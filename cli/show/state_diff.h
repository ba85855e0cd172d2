// The differences between two saved states, and between a state and data.

#pragma once

#include <string>
#include <vector>

#include "energon/checkpoint/job_state.h"
#include "wrappers/recipe/pipeline.h"

namespace energon::cli {

/// Every difference as "path: first, expected second"; empty for equal states.
std::vector<std::string> state_differences(const SavedState& first, const SavedState& second);

/// How the data that a state's configuration names differs from `data`: shards, counts, indexes.
std::vector<std::string> data_differences(const Config& config, const PipelineData& data);

}  // namespace energon::cli
