#include "energon/worker/checkpoint_interval.h"

#include <algorithm>

namespace energon {
namespace {

// Without a setting, storing states costs about an eighth of the bytes that batches cost.
constexpr std::uint64_t kBatchBytesPerStateByte = 8;

// Fewer bytes of batches than this do not pay for a checkpoint: a restore makes them again at once.
constexpr std::uint64_t kLeastBytes = std::uint64_t{64} << 10;

}  // namespace

CheckpointDue CheckpointInterval::due(const MadeBatch& batch) {
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

}  // namespace energon
