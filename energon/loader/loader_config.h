// The configuration and epoch size that loaders report.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "energon/stage/pipeline.h"
#include "energon/worker/loader_options.h"

namespace energon {

/// Settings of a loader of type `type`, including `stream_config` (state_config()). prefetch_factor
/// is null without workers and where it is absent.
Config loader_config(std::string_view type, const LoaderOptions& options,
                     const Config& stream_config);

/// Number of batches in one epoch of this rank; nothing if the epoch never ends.
std::optional<std::int64_t> epoch_size(const PipelineFactory& make_pipeline,
                                       const WorkerConfig& config);

}  // namespace energon
