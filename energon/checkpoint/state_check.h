// Whether a saved state belongs to a loader, and how it is fitted to another micro batch.

#pragma once

#include "energon/checkpoint/loader_state.h"
#include "energon/order/worker_config.h"
#include "energon/stage/pipeline.h"

namespace energon {

/// `state`, fitted to the loader whose state_config() is `expected`. Another micro batch is fitted
/// where batches are the last stage: by default a smaller one that divides the old one, and with
/// workers only, as in Energon; with logical shards set by the user any one. Throws Error
/// (kMismatch) that lists all differences, and says what would fit. `state` is not changed.
SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config);

}  // namespace energon
