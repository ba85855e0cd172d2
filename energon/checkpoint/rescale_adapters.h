// The positions of adapters on another layout: what rescale() does with
// SavableDataLoaderState::adapters.

#pragma once

#include <cstdint>
#include <vector>

#include "energon/checkpoint/job_state.h"
#include "energon/checkpoint/rescale.h"
#include "energon/state/state.h"

namespace energon {

/// The adapters of rank `rank` of `layout`, whose loader continues in `epoch`. Steps of the epoch
/// become as many as the ranks of `layout` need for the same batches. Batches that fill up the end
/// are those of an old rank. Throws Error: kInvalidArgument if one rank reads for all and `layout`
/// has several; kUnsupported for an adapter that cannot be divided anew.
std::vector<State> rescale_adapters(const SavableJobState& job, const JobLayout& layout, int rank,
                                    std::int64_t epoch);

}  // namespace energon
