// The state of a source as one tree: its adapters, outermost first, each with the next one as its
// only child, and innermost the position of the source. The node of a loader is `Loader`, with its
// encoded state. Stateful dictionaries and adapter state files have this form.

#pragma once

#include "energon/checkpoint/loader_state.h"
#include "energon/state/state.h"

namespace energon {

/// Converts to the tree and back. The tree of a source with a position of its own does not name the
/// rank: it comes back as the position of rank 0 of 1. from_tree() throws Error:
/// kMismatch if a node has several children, and those of decode_loader_state() and
/// check_loader_state(), whose paths begin with "state" as for a state file.
State to_tree(const SavableDataLoaderState& state);
SavableDataLoaderState from_tree(const State& tree);

}  // namespace energon
