#include "energon/loader/local_pipelines.h"

#include <chrono>
#include <utility>

#include "io/error.h"

namespace energon {

LocalPipelines::LocalPipelines(const PipelineFactory& make_pipeline, const LoaderOptions& options,
                               FailureLog& failures, CheckpointHistory& history, WaitCheck& check)
    : make_pipeline_(make_pipeline),
      options_(options),
      failures_(failures),
      history_(history),
      check_(check),
      counted_(std::make_unique<StatisticsBlock>()) {
  monitor_.set_check(check);
}

void LocalPipelines::start(std::span<const SavableDatasetCheckpoint> initial_checkpoints) {
  initial_checkpoints_ = initial_checkpoints;
  readers_ = make_leaf_readers();
  logical_shards_.resize(initial_checkpoints.size());
  try {
    for (std::size_t i = 0; i < initial_checkpoints.size(); ++i) {
      if (initial_checkpoints[i].is_start()) {
        make(i, initial_checkpoints[i].turn.epoch);  // so that the factory throws at once
      }
    }
  } catch (...) {
    logical_shards_.clear();
    throw;
  }
  drops_ = monitor_.drops();
}

void LocalPipelines::make(std::size_t local_index, std::int64_t epoch) {
  LogicalShard& logical_shard = logical_shards_[local_index];
  logical_shard.pipeline = restored_pipeline(make_pipeline_,
                                             {.config = options_.worker_config,
                                              .local_index = static_cast<int>(local_index),
                                              .memory = memory_,
                                              .batch_memory = batch_memory_,
                                              .monitor = monitor_,
                                              .readers = readers_},
                                             initial_checkpoints_[local_index], epoch);
  logical_shard.checkpoints.emplace(history_, local_index, options_.checkpoint_every_batches);
  if (initial_checkpoints_[local_index].offset > 0) {
    logical_shard.checkpoints->keep(*logical_shard.pipeline);  // as BatchProducer::restore()
  }
}

std::optional<Sample> LocalPipelines::read(std::size_t local_index, const Turn& turn) {
  LogicalShard& logical_shard = logical_shards_[local_index];
  std::optional<Sample> batch;
  check_.look();
  try {
    const BusyTime busy(*counted_, cpu_);
    if (!logical_shard.pipeline) {
      make(local_index, turn.epoch);
    }
    batch =
        logical_shard.pipeline->next(initial_checkpoints_[local_index].logical_shard, turn.epoch);
    batch_memory_->end_batch();
  } catch (...) {
    if (check_.has_ended_wait()) {
      monitor_.take_reports();  // reported again when the batch is made again
      throw;
    }
    try {
      take_reports();
    } catch (const Error&) {
      // The quarantine file cannot be written; the failure of the pipeline matters more.
    }
    throw;
  }
  take_reports();
  keep_if_due(logical_shard, batch ? &*batch : nullptr, turn.count == 0);
  if (batch) {
    count_batch(*counted_);
  }
  return batch;
}

// Follows the rules of a worker. `batch` is the batch that logical shard `local_index` just
// yielded; null if its epoch ended.
void LocalPipelines::keep_if_due(LogicalShard& logical_shard, const Sample* batch,
                                 bool is_first_of_epoch) {
  const bool replay_makes_it = logical_shard.pipeline->dataset().skip_makes_items();
  const bool is_due =
      batch != nullptr &&
      logical_shard.checkpoints->due(
          {.index = logical_shard.pipeline->index(),
           .bytes = payload_bytes(*batch),
           .is_first_of_epoch = is_first_of_epoch,
           .replay_time = replay_makes_it ? cpu_.last_call() : std::chrono::nanoseconds(0)});
  // Left-out samples may not be left out again, so a restore only skips batches without any.
  const bool has_new_drops = std::exchange(drops_, monitor_.drops()) != monitor_.drops();
  if (is_due || has_new_drops) {
    logical_shard.checkpoints->keep(*logical_shard.pipeline);
  }
}

void LocalPipelines::take_reports() {
  for (const FailureReport& report : monitor_.take_reports()) {
    failures_.add(report);
  }
}

std::vector<SavableDatasetCheckpoint> LocalPipelines::positions() const {
  std::vector<SavableDatasetCheckpoint> positions;
  positions.reserve(logical_shards_.size());
  for (std::size_t i = 0; i < logical_shards_.size(); ++i) {
    const LogicalShard& logical_shard = logical_shards_[i];
    positions.push_back(logical_shard.pipeline ? logical_shard.pipeline->checkpoint()
                                               : initial_checkpoints_[i]);
  }
  return positions;
}

}  // namespace energon
