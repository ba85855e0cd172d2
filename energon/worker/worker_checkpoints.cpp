#include "energon/worker/worker_checkpoints.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <utility>

#include "energon/order/worker_config.h"
#include "io/bytes.h"

namespace energon {
namespace {

// Without a setting, storing states costs about an eighth of the bytes that batches cost.
constexpr std::uint64_t kBatchBytesPerStateByte = 8;

// Below this many bytes of batches, a checkpoint does not pay: a restore quickly repeats them.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10;

}  // namespace

CheckpointDue CheckpointInterval::due(const ProducedBatch& batch) {
  bytes_moved_ += batch.bytes;
  replay_time_ += batch.replay_time;
  const std::int64_t batches = batch.index - last_index_;
  const bool is_due = every_batches_ == 0 ? batch.is_first_of_epoch
                      : every_batches_    ? batches >= *every_batches_
                                          : is_worth_its_bytes(batches);
  if (is_due) {
    return CheckpointDue::kYes;
  }
  return !every_batches_ && is_worth_its_time() ? CheckpointDue::kIfRoom : CheckpointDue::kNo;
}

bool CheckpointInterval::is_worth_its_bytes(std::int64_t batches) const {
  return bytes_moved_ >= kBatchBytesPerStateByte * last_size_ &&
         (bytes_moved_ >= kLeastBytes || batches >= kMostBatches);
}

bool CheckpointInterval::is_worth_its_time() const {
  return replay_time_ >=
         std::max<std::chrono::nanoseconds>(kLeastReplay, kReplayPerStore * store_time_);
}

void CheckpointInterval::stored(std::int64_t index, std::uint64_t size_bytes,
                                std::chrono::nanoseconds store_time) {
  last_index_ = index;
  last_size_ = size_bytes;
  store_time_ = store_time;
  bytes_moved_ = 0;
  replay_time_ = std::chrono::nanoseconds(0);
}

using Clock = std::chrono::steady_clock;

void LogicalShardCheckpoints::store(const PositionedDataset& pipeline) {
  const Clock::time_point begin = Clock::now();
  store(pipeline.checkpoint(), begin);
}

void LogicalShardCheckpoints::store(const SavableDatasetCheckpoint& checkpoint,
                                    Clock::time_point begin) {
  writer_.clear();
  encode_checkpoint(writer_, checkpoint);
  const auto index = static_cast<std::uint64_t>(checkpoint.index);
  ring_.write(index, as_bytes(writer_.bytes()));
  interval_.stored(checkpoint.index, writer_.bytes().size(), Clock::now() - begin);
  const MutexLock lock(mutex_);
  indexes_.push_back(index);
  while (indexes_.size() > ring_.stored_count()) {
    indexes_.pop_front();
  }
}

std::optional<std::uint64_t> LogicalShardCheckpoints::oldest_after_store() const {
  const MutexLock lock(mutex_);
  return indexes_.size() < slots_ ? std::nullopt
                                  : std::optional(indexes_[indexes_.size() - slots_ + 1]);
}

std::optional<std::uint64_t> LogicalShardCheckpoints::newest_not_after(
    std::uint64_t delivered) const {
  const MutexLock lock(mutex_);
  const auto after = std::upper_bound(indexes_.begin(), indexes_.end(), delivered);
  return after == indexes_.begin() ? std::nullopt : std::optional(*(after - 1));
}

WorkerCheckpoints::WorkerCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options,
                                     int worker)
    : worker_(static_cast<std::size_t>(worker)),
      workers_(static_cast<std::size_t>(options.worker_config.workers_per_rank())) {
  const std::int64_t logical_shards = share_of(options.worker_config.logical_shards_per_rank(),
                                               worker, options.worker_config.workers_per_rank());
  for (std::int64_t local_index = 0; local_index < logical_shards; ++local_index) {
    CheckpointWriter& ring = channel.checkpoints(static_cast<std::size_t>(local_index));
    logical_shards_.emplace_back(ring, ring.slots(), options.checkpoint_every_batches);
  }
}

}  // namespace energon
