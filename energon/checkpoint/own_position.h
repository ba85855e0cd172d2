// The state of a source of batches that keeps a position of its own, without logical shards.
//
// It has the form of a loader's state, so files, adapters and protocols treat it like one: a single
// stream whose pipeline state is the position. Its configuration has a member `source`, the type of
// that position. It cannot be rescaled.

#pragma once

#include <string>

#include "energon/checkpoint/loader_state.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// Whose position it is.
struct OwnPlace {
  int rank = 0;
  int world_size = 1;
  /// What the sources of all ranks must have in common, an object; null: nothing.
  BoxedJson common_settings = {};
};

/// Makes a state from the position of a source, which stands at `at`; batches are counted in this
/// epoch only. `position` has no children. Throws Error (kInvalidArgument).
SavableDataLoaderState own_state(State position, const EpochStep& at, const OwnPlace& place = {});

/// Whether `config` is the configuration of such a state.
bool has_own_position(const Config& config);

/// The position in such a state; null if `state` is one of a loader.
const State* own_position(const SavableDataLoaderState& state);

/// What the state is of: the types of its adapters and its source, such as "Shard over Loader".
std::string source_kind(const SavableDataLoaderState& state);

}  // namespace energon
