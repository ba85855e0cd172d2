// How a loader creates the pipeline of one logical shard.

#pragma once

#include <functional>
#include <memory>

#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/dataset.h"
#include "energon/stage/pipeline_monitor.h"

namespace energon {

class LeafReaders;

/// Readers without a helper thread; see energon/read/leaf_readers.h.
std::shared_ptr<LeafReaders> make_leaf_readers();

/// What the pipeline is made for, and where it allocates.
struct PipelineContext {
  WorkerConfig config = {};
  int stream = 0;           ///< index of the logical shard within the rank
  BufferAllocator& memory;  ///< for the bytes that are read
  /// For what functions make (CallContext::memory()). Whoever takes the batches of the pipeline
  /// calls end_batch() after each.
  std::shared_ptr<BatchMemory> made = std::make_shared<BatchMemory>(memory);
  PipelineMonitor& monitor = no_monitor();
  /// Shared by all pipelines of a process, so that a worker with many logical shards keeps no more
  /// files open than a worker with one.
  std::shared_ptr<LeafReaders> readers = make_leaf_readers();

  int logical_shard() const { return config.logical_shard(stream); }
  std::uint32_t seed() const { return worker_seed(logical_shard(), config.seed_offset); }
};

/// Makes a pipeline at its start position. Called in each worker after the fork, and in the parent
/// for config(), sizes and restore_sample(). It must return the same pipeline each time, and open
/// files lazily or not at all.
using PipelineFactory = std::function<std::unique_ptr<Dataset>(const PipelineContext&)>;

}  // namespace energon
