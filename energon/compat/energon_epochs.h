// Epochs in states of orders: whether they end, and how many have ended.

#pragma once

#include <cstdint>

#include "energon/state/savable.h"
#include "energon/state/state.h"

namespace energon {

/// The configuration of an inner order. Requires: the order with `config` has so many.
const Config& inner_order(const Config& config, std::size_t i);

/// Whether the order with this configuration goes on without end.
bool is_endless(const Config& order);

/// Whether a dataset is repeated a fractional number of times.
bool has_fractional_repetition(const Config& order);

/// Whether there is anything to read.
bool has_samples(const Config& order);

/// Epochs that an order has ended. Requires: it is not endless and has no fractional repetition.
std::int64_t ended_epochs(const State& order, const Config& config);

/// Whether an order is at the beginning of an epoch, before its first sample.
bool is_before_epoch(const State& order, const Config& config);

}  // namespace energon
