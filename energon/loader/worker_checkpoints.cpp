#include "energon/loader/worker_checkpoints.h"

#include <algorithm>

#include "io/bytes.h"

namespace energon {
namespace {

// Without a setting, storing states costs about an eighth of the bytes that batches cost.
constexpr std::uint64_t kBatchBytesPerStateByte = 8;

}  // namespace

bool WorkerCheckpoints::due(std::int64_t index, std::uint64_t bytes, bool is_first_of_epoch) {
  bytes_sent_ += bytes;
  if (every_batches_ == 0) {
    return is_first_of_epoch;
  }
  return every_batches_ ? index - last_index_ >= *every_batches_
                        : bytes_sent_ >= kBatchBytesPerStateByte * last_size_;
}

void WorkerCheckpoints::store(const SavableDatasetCheckpoint& checkpoint) {
  writer_.clear();
  encode_checkpoint(writer_, checkpoint);
  const auto index = static_cast<std::uint64_t>(checkpoint.index);
  ring_.write(index, as_bytes(writer_.bytes()));
  last_index_ = checkpoint.index;
  last_size_ = writer_.bytes().size();
  bytes_sent_ = 0;
  const std::lock_guard lock(mutex_);
  indexes_.push_back(index);
  if (indexes_.size() > slots_) {
    indexes_.pop_front();
  }
}

std::optional<std::uint64_t> WorkerCheckpoints::newest_not_after(std::uint64_t delivered) const {
  const std::lock_guard lock(mutex_);
  const auto after = std::upper_bound(indexes_.begin(), indexes_.end(), delivered);
  return after == indexes_.begin() ? std::nullopt : std::optional(*(after - 1));
}

}  // namespace energon
