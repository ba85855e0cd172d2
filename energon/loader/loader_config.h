// What loaders determine with an extra pipeline in the caller's process, which delivers nothing:
// the configuration, the size of an epoch, and single batches or samples, rebuilt from their
// restore keys.

#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/stage/dataset.h"
#include "energon/worker/loader_options.h"
#include "io/concurrency.h"

namespace energon {

/// Settings of a loader of type `type`, including `state_config` (state_config()). prefetch_factor
/// is null if unset or without workers.
Config loader_config(std::string_view type, const LoaderOptions& options,
                     const Config& state_config);

/// Counts the batches of an epoch with the pipelines of a rank. Makes the pipelines once and caches
/// their sizes. Thread-safe.
class EpochSizes {
 public:
  /// Both arguments must outlive the object.
  EpochSizes(const PipelineFactory& make_pipeline, const WorkerConfig& config)
      : make_pipeline_(make_pipeline), config_(config) {}

  /// Number of batches in one epoch of the rank; nullopt if the epoch never ends.
  std::optional<std::int64_t> of_rank();

  /// Number of batches that are left in `epoch`, for logical shards that started at
  /// `initial_checkpoints` and whose next turns are in `turns`; nullopt if the epoch never ends.
  std::optional<std::int64_t> left(std::span<const SavableDatasetCheckpoint> initial_checkpoints,
                                   const Turns& turns, std::int64_t epoch);

  /// Called when the logical shards continue from another state, whose batches may have another
  /// size.
  void forget_started();

 private:
  /// A logical shard that started in the middle of an epoch.
  struct Started {
    std::int64_t epoch = 0;
    std::int64_t turns = 0;  // number of turns in that epoch
  };

  const std::vector<std::optional<std::int64_t>>& of_streams() ENERGON_REQUIRES(mutex_);
  Started started_at(const SavableDatasetCheckpoint& start, std::size_t local_index,
                     std::int64_t size) const;

  const PipelineFactory& make_pipeline_;
  const WorkerConfig& config_;
  Mutex mutex_;
  /// The size of each logical shard; empty until it is first needed.
  std::vector<std::optional<std::int64_t>> sizes_ ENERGON_GUARDED_BY(mutex_);
  std::map<std::size_t, Started> started_ ENERGON_GUARDED_BY(mutex_);  // by logical shard
};

/// Rebuilds single batches or samples from their restore keys. Not thread-safe. Keeps one pipeline
/// for each logical shard requested so far.
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
  const std::shared_ptr<BatchMemory> batch_memory_ = std::make_shared<BatchMemory>(memory_);
  std::map<std::int64_t, std::unique_ptr<Dataset>> pipelines_;  // by logical shard
};

}  // namespace energon
