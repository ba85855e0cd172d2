// Rebuilds single batches or samples from their restore keys in the caller's process.

#pragma once

#include <map>
#include <memory>

#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/stage/dataset.h"

namespace energon {

/// Not thread-safe. Keeps one pipeline for each logical shard requested so far.
class SampleRestorer {
 public:
  SampleRestorer(PipelineFactory make_pipeline, const WorkerConfig& config)
      : make_pipeline_(std::move(make_pipeline)), config_(config) {}

  /// The item that a loader on any rank of this job delivered with `key`. Throws Error
  /// (kInvalidArgument) if the key does not belong to this job.
  Sample restore(const RestoreKey& key);

 private:
  const PipelineFactory make_pipeline_;
  const WorkerConfig config_;
  HeapBufferPool memory_;
  const std::shared_ptr<BatchMemory> made_ = std::make_shared<BatchMemory>(memory_);
  std::map<std::int64_t, std::unique_ptr<Dataset>> pipelines_;  // by logical shard
};

}  // namespace energon
