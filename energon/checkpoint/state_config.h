// The configuration in a saved state: the settings and data that the position belongs to.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/order/worker_config.h"
#include "energon/stage/dataset.h"
#include "energon/state/savable.h"

namespace energon {

/// Returns the layout of a job in the form used in configurations: rank, world size, seed offset,
/// and workers or logical shards. If the user set the number of logical shards, the number of
/// workers is omitted because it does not affect the order.
Config layout_config(const WorkerConfig& layout);
/// Returns the layout stored in a configuration. It allows an uneven division; validate() accepts
/// it. Throws Error (kCorruptData) with the path of the invalid element, which begins with `path`.
WorkerConfig layout_of(const Config& config, const std::string& path = "config");

/// Throws Error (kCorruptData) with the path of the invalid element if `config` cannot come from a
/// loader: it is too deeply nested, has an invalid layout (layout_of()), a pipeline that is not an
/// object, or a `type` that is not a string. The pipeline may be missing, as in the parts of a flat
/// state.
void check_config(const Config& config, const std::string& path);

/// The configuration that a position depends on: the layout, and the configuration of the pipeline
/// of logical shard 0, which determines the others.
Config state_config(const PipelineFactory& make_pipeline, const WorkerConfig& worker_config);

/// What all ranks of a job share: the configuration in a state without the rank. It identifies the
/// data, with counts, sizes and the exclusions of split files.
Config common_config(Config state_config);

/// Returns the configuration in the form stored in files. Throws Error (kUnsupported) if a string
/// in it, such as the name of a stage, is not UTF-8.
std::string dump_config(const Config& config);

/// Batch size of the outermost Batch stage in a configuration; nullopt if there is none.
std::optional<std::int64_t> micro_batch_size(const Config& config);
/// Sets that batch size, if there is a Batch stage.
void set_micro_batch_size(Config& config, std::int64_t size);

/// Appends a difference if a position saved with batches of `saved` samples cannot be used by a
/// loader with `config`, whose batches have `current` samples. By default the new size must divide
/// the saved one and the loader must have workers, as in Energon. With logical shards set by the
/// user any size is accepted. Batching must be the last stage.
void check_micro_batch(std::optional<std::int64_t> saved, std::optional<std::int64_t> current,
                       const Config& config, std::vector<std::string>& differences);

}  // namespace energon
