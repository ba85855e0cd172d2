#include "energon/loader/loader_config.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/call_context.h"
#include "io/error.h"

namespace energon {

Config loader_config(std::string_view type, const LoaderOptions& options,
                     const Config& state_config) {
  Config config = {{"type", type}, {"prefetch_factor", nullptr}, {"state_config", state_config}};
  if (options.worker_config.num_workers > 0 && options.prefetch_factor) {
    config["prefetch_factor"] = *options.prefetch_factor;
  }
  return config;
}

const std::vector<std::optional<std::int64_t>>& EpochSizes::of_streams() {
  if (sizes_.empty()) {
    HeapBufferPool memory;
    const auto readers = make_leaf_readers();
    std::vector<std::optional<std::int64_t>> sizes;
    for (int local_index = 0; local_index < config_.logical_shards_per_rank(); ++local_index) {
      sizes.push_back(
          make_pipeline_(
              {.config = config_, .local_index = local_index, .memory = memory, .readers = readers})
              ->size());
    }
    sizes_ = std::move(sizes);
  }
  return sizes_;
}

void EpochSizes::forget_started() {
  const MutexLock lock(mutex_);
  started_.clear();
}

std::optional<std::int64_t> EpochSizes::of_rank() {
  const MutexLock lock(mutex_);
  std::int64_t sum = 0;
  for (const std::optional<std::int64_t>& size : of_streams()) {
    if (!size) {
      return std::nullopt;
    }
    sum += *size;
  }
  return sum;
}

std::optional<std::int64_t> EpochSizes::left(
    std::span<const SavableDatasetCheckpoint> initial_checkpoints, const Turns& turns,
    std::int64_t epoch) {
  const MutexLock lock(mutex_);
  std::int64_t left = 0;
  for (std::size_t i = 0; i < initial_checkpoints.size(); ++i) {
    const Turn& turn = turns.of(i);
    if (turn.epoch > epoch) {
      continue;
    }
    const std::optional<std::int64_t> size = of_streams()[i];
    if (!size) {
      return std::nullopt;
    }
    const Turn& start = initial_checkpoints[i].turn;
    const auto started = started_.find(i);
    if (started != started_.end() && started->second.epoch == epoch) {
      left += started->second.turns - turn.count;
    } else if (start.epoch == epoch && start.count > 0) {
      started_[i] = started_at(initial_checkpoints[i], i, *size);
      left += started_[i].turns - turn.count;
    } else {
      left += std::max<std::int64_t>(*size - turn.count, 0);
    }
  }
  return left;
}

// Batches before a restore may have another size, so count those that follow.
EpochSizes::Started EpochSizes::started_at(const SavableDatasetCheckpoint& start,
                                           std::size_t local_index, std::int64_t size) const {
  HeapBufferPool memory;
  PositionedDataset rest(make_pipeline_(
      {.config = config_, .local_index = static_cast<int>(local_index), .memory = memory}));
  rest.restore(start, start.turn.epoch);
  const ItemNumber number(rest.index());
  return {start.turn.epoch, start.turn.count + rest.dataset().skip(size)};
}

Sample SampleRestorer::restore(const RestoreKey& key) {
  const RestoreKeyParts parts = split_key(key, Stage::kLogicalShard, 2, 1);
  const std::int64_t shard = parts.integers[0];
  if (shard >= config_.logical_shard_count()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("restore key has logical shard {}, but this job (world size {}, {} workers per "
                    "rank) has only {}",
                    shard, config_.world_size, config_.num_workers, config_.logical_shard_count()));
  }
  try {
    auto& pipeline = pipelines_[shard];
    if (!pipeline) {
      const LogicalShardOwner place = place_of(static_cast<int>(shard), config_);
      WorkerConfig config = config_;
      config.rank = place.rank;
      pipeline = make_pipeline_({.config = config,
                                 .local_index = place.local_index,
                                 .memory = memory_,
                                 .batch_memory = batch_memory_});
    }
    const ItemNumber number(parts.integers[1]);
    Sample sample = pipeline->restore_sample(parts.inner[0]);
    batch_memory_->end_batch();
    sample.restore_key = key;
    sample.place.reset();
    return sample;
  } catch (...) {
    batch_memory_->end_batch();
    throw to_error(std::current_exception(), "the pipeline");
  }
}

}  // namespace energon
