// Where a stream begins that goes on by other rules than those of today (is_rule()): it keeps the
// rules that it began with.

#pragma once

#include <optional>

#include "energon/checkpoint/loader_state.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"

namespace energon {

/// The start of `pipeline` under the rules of `stream`, which was saved with `config`; nothing if
/// they are those of today. `pipeline` stands at its start.
std::optional<State> start_under_rules_of(const SavableDatasetCheckpoint& stream,
                                          const Config& config, const Dataset& pipeline);

}  // namespace energon
