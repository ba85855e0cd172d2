// How a loader gets the pipeline of one logical shard.

#pragma once

#include <functional>
#include <memory>

#include "energon/buffer_allocator.h"
#include "energon/dataset.h"
#include "energon/pipeline_monitor.h"
#include "energon/worker_config.h"

namespace energon {

/// Who the pipeline is for, and where it may put bytes.
struct PipelineContext {
  WorkerConfig config = {};
  int worker = 0;  ///< within the rank; 0 without workers
  BufferAllocator& memory;
  PipelineMonitor& monitor = unobserved();

  int logical_shard() const { return config.logical_shard(worker); }
  std::uint32_t seed() const { return worker_seed(logical_shard(), config.seed_offset); }
};

/// Makes a pipeline at its start. Called in each worker, after the fork, and in the parent for
/// config(), sizes and restore_sample(): it must give the same pipeline each time, and open files
/// lazily or not at all.
using PipelineFactory = std::function<std::unique_ptr<Dataset>(const PipelineContext&)>;

}  // namespace energon
