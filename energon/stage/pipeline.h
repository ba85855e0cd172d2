// How a loader gets the pipeline of one logical shard.

#pragma once

#include <functional>
#include <memory>

#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/dataset.h"
#include "energon/stage/pipeline_monitor.h"

namespace energon {

class LeafReaders;

/// Without a helper thread. energon/read/leaf_readers.h says what they are.
std::shared_ptr<LeafReaders> make_leaf_readers();

/// Who the pipeline is for, and where it may put bytes.
struct PipelineContext {
  WorkerConfig config = {};
  int stream = 0;  ///< of the rank: which of its logical shards
  BufferAllocator& memory;
  PipelineMonitor& monitor = no_monitor();
  /// The readers of all pipelines of a process, so that a worker with many logical shards keeps no
  /// more files open than one with one.
  std::shared_ptr<LeafReaders> readers = make_leaf_readers();

  int logical_shard() const { return config.logical_shard(stream); }
  std::uint32_t seed() const { return worker_seed(logical_shard(), config.seed_offset); }
};

/// Makes a pipeline at its start. Called in each worker, after the fork, and in the parent for
/// config(), sizes and restore_sample(): it must give the same pipeline each time, and open files
/// lazily or not at all.
using PipelineFactory = std::function<std::unique_ptr<Dataset>(const PipelineContext&)>;

}  // namespace energon
