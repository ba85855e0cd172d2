#include "energon/loader/worker_checkpoints.h"

#include <algorithm>

#include "io/bytes.h"

namespace energon {
namespace {

// Without a setting, a batch pays for at most this much of state.
constexpr std::size_t kStateBytesPerBatch = 64 * 1024;

}  // namespace

void WorkerCheckpoints::store(const SavableDatasetCheckpoint& checkpoint) {
  ByteWriter writer;
  encode_checkpoint(writer, checkpoint);
  const auto index = static_cast<std::uint64_t>(checkpoint.index);
  ring_.write(index, as_bytes(writer.bytes()));
  next_index_ =
      checkpoint.index + every_batches_.value_or(static_cast<std::int64_t>(std::max<std::size_t>(
                             writer.bytes().size() / kStateBytesPerBatch, 1)));
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
