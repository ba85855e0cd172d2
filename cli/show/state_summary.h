// Summarizes a saved state for users: what was delivered, and where each logical shard is.

#pragma once

#include <string>

#include "energon/checkpoint/job_state.h"

namespace energon::cli {

/// Several lines, each ended by a newline. `file` is the file that the state was read from.
std::string summarize_state(const SavedState& saved, const std::string& file);

/// Whether a loader alone saved the state, without adapters and not a source of the user's.
bool is_state_of_loader(const SavableDataLoaderState& state);

}  // namespace energon::cli
