// The configuration that stands in a state: what its position belongs to.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "energon/order/worker_config.h"
#include "energon/stage/pipeline.h"
#include "energon/state/savable.h"

namespace energon {

/// The layout of a job as it stands in a configuration: rank, world size, seeds, and workers or
/// logical shards. With logical shards set by the user the number of workers is not in it: it
/// changes nothing.
Config layout_config(const WorkerConfig& layout);
/// The layout that a configuration is of. It allows an uneven division; validate() accepts it.
/// Throws Error (kCorruptData) with the path of what is wrong, which begins with `path`.
WorkerConfig layout_of(const Config& config, const std::string& path = "config");

/// Throws Error (kCorruptData) with the path of what is wrong if `config` is of no loader: too
/// deeply nested, no layout (layout_of()), a pipeline that is no object, or a `type` anywhere that
/// is no text. The pipeline may be missing: the parts of a flat state have none.
void check_config(const Config& config, const std::string& path);

/// What a position depends on: the layout, and the configuration of the pipeline of logical shard 0
/// (the others follow from it).
Config state_config(const PipelineFactory& make_pipeline, const WorkerConfig& worker_config);

/// The configuration as it stands in files. Throws Error (kUnsupported) for a text in it, such as
/// the name of a stage, that is not UTF-8.
std::string dump_config(const Config& config);

/// Whether the loader that saved `config` drew as this program does (TieRule::kNextEntry). If not,
/// logical shards that have no state yet begin with the rules of that time.
bool draws_as_today(const Config& config);

/// Batch size of the outermost Batch stage in a configuration; nothing if there is none.
std::optional<std::int64_t> micro_batch_size(const Config& config);
/// Sets it where there is one.
void set_micro_batch_size(Config& config, std::int64_t size);

/// Adds a difference if a position after batches of `saved` samples cannot be one of a loader with
/// `config`, whose batches have `current` samples: by default it may only become smaller, by a
/// divisor of the saved size, and with workers only, as in Energon; with logical shards set by the
/// user it may be any. Batches must be the last stage.
void check_micro_batch(std::optional<std::int64_t> saved, std::optional<std::int64_t> current,
                       const Config& config, std::vector<std::string>& differences);

}  // namespace energon
