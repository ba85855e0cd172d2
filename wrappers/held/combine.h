// What stages that make one item of several have in common: batches, groups, packs.

#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"

namespace energon {

/// Length of a sample in the unit that groups and packs are measured in: tokens, frames, seconds.
using LengthFunction = std::function<std::int64_t(const Sample& sample)>;

/// Keys and sources of `sample` alone: what a report needs when a function takes the sample away.
Sample origins_of(const Sample& sample);

/// Gives `made` the keys and sources of `origins` if it has none: a function that builds a new
/// sample need not carry them over.
void set_origins(Sample& made, const Sample& origins);

/// Moves the keys and sources of `samples`, in order, to the end of those of `item`.
void move_origins(std::span<Sample> samples, Sample& item);

/// The restore keys of `samples`, in order.
std::vector<RestoreKey> restore_keys(std::span<const Sample> samples);

/// The samples that `inner` emitted with `keys`, in order; errors as Dataset::restore_sample().
std::vector<Sample> restore_samples(Dataset& inner, std::span<const RestoreKey> keys);

/// What a report says of `samples` whose keys and sources are still there.
std::vector<FailedSample> failed_samples(std::span<const Sample> samples);

}  // namespace energon
