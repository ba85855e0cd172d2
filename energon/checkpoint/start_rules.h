// The start state of a stream that uses older rules (is_rule()): a stream keeps the rules that it
// began with.

#pragma once

#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"

namespace energon {

/// Returns the start state of `pipeline` under the rules of `stream`, which was saved with
/// `config`; nullopt if these are the current rules. Requires: `pipeline` is at its start.
std::optional<State> start_under_rules_of(const SavableDatasetCheckpoint& stream,
                                          const Config& config, const Dataset& pipeline);

}  // namespace energon
