// Translates the tree of dataset states in a state of Energon's loader into the state of one of our
// pipelines: both have the same orders, generators and counters.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "energon/compat/energon_tree.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// A translated state.
struct TranslatedState {
  State state;
  /// The epoch that it is in, counted from 0. The beginning of an epoch is in that epoch.
  std::int64_t epoch = 0;
};

/// What the translation needs to know of our pipeline.
struct TranslationTarget {
  State start;           ///< its state at its start
  const Config& config;  ///< its configuration
  std::uint32_t seed = 0;
  std::optional<std::int64_t> epoch_size;        ///< batches of an epoch, if that is known
  const std::function<void()>& check_cancelled;  ///< called now and then, if there is one
};

/// The order in the configuration of a pipeline; null if it has a stage that is not translated.
const Config* order_in(const Config& pipeline);
/// The state of that order. Requires: order_in() is not null.
const State& order_in(const State& pipeline);

/// The state of our pipeline at the position of `tree`, after `emitted` batches. nullopt if only
/// running the pipeline gives it. Throws Error: kMismatch if the stages or the generators of the
/// tree are others; kUnsupported; kCorruptData.
std::optional<TranslatedState> translate_energon_tree(const EnergonNode& tree, std::int64_t emitted,
                                                      const TranslationTarget& target);

}  // namespace energon
