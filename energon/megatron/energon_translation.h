// Translates the tree of dataset states in a state of Energon's loader into the state of one of our
// pipelines: both have the same orders, generators and counters.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "energon/megatron/energon_tree.h"
#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

// --- Epochs in states of orders: whether they end, and how many have ended ---

/// The configuration of an inner order. Requires: the order with `config` has that many.
const Config& inner_order(const Config& config, std::size_t i);

/// Whether the order with this configuration is endless.
bool is_endless(const Config& order);

/// Whether a dataset is repeated a fractional number of times.
bool has_fractional_repetition(const Config& order);

/// Whether there is anything to read.
bool has_samples(const Config& order);

/// Epochs that an order has ended. Requires: it is not endless and has no fractional repetition.
std::int64_t ended_epochs(const State& order, const Config& config);

/// Whether an order is at the beginning of an epoch, before its first sample.
bool is_before_epoch(const State& order, const Config& config);

// --- Translation ---

/// A translated state.
struct TranslatedState {
  State state;
  /// The epoch that it is in, counted from 0. The beginning of an epoch is in that epoch.
  std::int64_t epoch = 0;
};

/// What the translation needs from our pipeline.
struct TranslationTarget {
  State start;           ///< its state at its start
  const Config& config;  ///< its configuration
  std::uint32_t seed = 0;
  std::optional<std::int64_t> epoch_size;        ///< batches of an epoch, if known
  const std::function<void()>& check_cancelled;  ///< called periodically, if set
};

/// The order in the configuration of a pipeline; null if it has a stage that is not translated.
const Config* order_in(const Config& pipeline);
/// The state of that order. Requires: order_in() is not null.
const State& order_in(const State& pipeline);

/// The state of our pipeline at the position of `tree`, after `emitted` batches; nullopt if it
/// requires running the pipeline. Throws Error: kMismatch if the stages or the generators of the
/// tree differ; kUnsupported; kCorruptData.
std::optional<TranslatedState> translate_energon_tree(const EnergonNode& tree, std::int64_t emitted,
                                                      const TranslationTarget& target);

}  // namespace energon
