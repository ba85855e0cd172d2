// Whether a saved state belongs to a loader, and how it is fitted to a smaller micro batch.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/loader/loader_state.h"
#include "energon/pipeline.h"
#include "energon/worker_config.h"

namespace energon {

/// What a position depends on: rank, world size, workers, seeds, and the configuration of the
/// rank's first pipeline (the others follow from it).
Config state_config(const PipelineFactory& make_pipeline, const WorkerConfig& worker_config);

/// Batch size of the outermost Batch stage in a configuration; nothing if there is none.
std::optional<std::int64_t> micro_batch_size(const Config& config);

/// `state`, fitted to the loader whose state_config() is `expected`. A smaller micro batch that
/// divides the old one is fitted by scaling the counts of batches (with workers only, as in
/// Energon). Throws Error (kMismatch) that lists all differences, and says what would fit. `state`
/// is not changed.
SavableDataLoaderState fit_state(const SavableDataLoaderState& state, const Config& expected,
                                 const PipelineFactory& make_pipeline,
                                 const WorkerConfig& worker_config);

}  // namespace energon
