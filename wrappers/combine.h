// What stages that make one item of several have in common: batches, groups, packs.

#pragma once

#include <span>
#include <vector>

#include "energon/failure.h"
#include "energon/sample.h"

namespace energon {

/// Moves the keys and sources of `samples`, in order, to the end of those of `item`.
void move_origins(std::span<Sample> samples, Sample& item);

/// The restore keys of `samples`, in order.
std::vector<RestoreKey> restore_keys(std::span<const Sample> samples);

/// What a report says of `samples` whose keys and sources are still there.
std::vector<FailedSample> failed_samples(std::span<const Sample> samples);

}  // namespace energon
