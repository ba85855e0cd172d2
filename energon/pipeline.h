// How a loader gets the pipeline of one logical shard.

#pragma once

#include <functional>
#include <memory>

#include "energon/buffer_allocator.h"
#include "energon/dataset.h"
#include "energon/leaf_readers.h"
#include "energon/pipeline_monitor.h"
#include "energon/worker_config.h"

namespace energon {

/// Who the pipeline is for, and where it may put bytes.
struct PipelineContext {
  WorkerConfig config = {};
  int stream = 0;  ///< of the rank: which of its logical shards
  BufferAllocator& memory;
  PipelineMonitor& monitor = unobserved();
  /// The readers of all pipelines of a process, so that a worker with many logical shards keeps no
  /// more files open than one with one.
  std::shared_ptr<LeafReaders> readers = std::make_shared<LeafReaders>();

  int logical_shard() const { return config.logical_shard(stream); }
  std::uint32_t seed() const { return worker_seed(logical_shard(), config.seed_offset); }
};

/// Makes a pipeline at its start. Called in each worker, after the fork, and in the parent for
/// config(), sizes and restore_sample(): it must give the same pipeline each time, and open files
/// lazily or not at all.
using PipelineFactory = std::function<std::unique_ptr<Dataset>(const PipelineContext&)>;

}  // namespace energon
