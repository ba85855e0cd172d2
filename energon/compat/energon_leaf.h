// The state of one dataset's order, from the state of Energon's sample loader.

#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

#include "energon/compat/energon_generator.h"
#include "energon/compat/energon_tree.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// What to compare where the order of a dataset is another one.
inline constexpr std::string_view kOtherOrder =
    "look at the data, the number of ranks and the order of their files, the seed offset, "
    "max_samples_per_sequence, shuffle_over_epochs and parallel_shard_iters (parallel_slices)";

/// The generator of a dataset (its field _worker_rng). Throws Error (kMismatch) unless it was made
/// of `seed`, that of the worker.
EnergonGenerator read_energon_generator(const EnergonNode& node, std::uint32_t seed);

/// The state of a SliceOrder at the place of `node`, a WebdatasetSampleLoaderDataset. `start`: its
/// state at the start; `config`: its configuration. `is_over`: its epoch has ended, but not that
/// of the orders around it. Numbers that Energon drew are drawn again, a few ns each;
/// `check_cancelled`, if there is one, is called meanwhile and may throw. Throws Error: kMismatch,
/// kCorruptData.
State translate_energon_leaf(const State& start, const Config& config, const EnergonNode& node,
                             bool is_over, const std::function<void()>& check_cancelled);

}  // namespace energon
