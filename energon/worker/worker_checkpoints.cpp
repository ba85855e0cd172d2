#include "energon/worker/worker_checkpoints.h"

#include <algorithm>

#include "io/bytes.h"

namespace energon {

using Clock = std::chrono::steady_clock;

void WorkerCheckpoints::store(const PositionedDataset& stream) {
  const Clock::time_point begin = Clock::now();
  store(stream.checkpoint(), begin);
}

void WorkerCheckpoints::store(const SavableDatasetCheckpoint& checkpoint, Clock::time_point begin) {
  writer_.clear();
  encode_checkpoint(writer_, checkpoint);
  const auto index = static_cast<std::uint64_t>(checkpoint.index);
  ring_.write(index, as_bytes(writer_.bytes()));
  interval_.stored(checkpoint.index, writer_.bytes().size(), Clock::now() - begin);
  const MutexLock lock(mutex_);
  indexes_.push_back(index);
  while (indexes_.size() > ring_.kept()) {
    indexes_.pop_front();
  }
}

std::optional<std::uint64_t> WorkerCheckpoints::oldest_after_store() const {
  const MutexLock lock(mutex_);
  return indexes_.size() < slots_ ? std::nullopt
                                  : std::optional(indexes_[indexes_.size() - slots_ + 1]);
}

std::optional<std::uint64_t> WorkerCheckpoints::newest_not_after(std::uint64_t delivered) const {
  const MutexLock lock(mutex_);
  const auto after = std::upper_bound(indexes_.begin(), indexes_.end(), delivered);
  return after == indexes_.begin() ? std::nullopt : std::optional(*(after - 1));
}

}  // namespace energon
