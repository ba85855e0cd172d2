// Checks that a saved state belongs to a loader, and adapts it to another micro batch size.

#pragma once

#include "energon/checkpoint/loader_state.h"
#include "energon/order/worker_config.h"
#include "energon/stage/dataset.h"

namespace energon {

/// Returns `state`, adapted to the loader whose state_config() is `expected`. The micro batch size
/// may change only if batching is the last stage. By default the new size must divide the old one
/// and the loader must have workers, as in Energon; with logical shards set by the user any size
/// fits. Throws Error (kMismatch) that lists all differences and tells what would fit. Does not
/// change `state`.
SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config);

}  // namespace energon
