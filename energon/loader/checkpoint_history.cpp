#include "energon/loader/checkpoint_history.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace energon {

void CheckpointHistory::begin(std::span<const SavableDatasetCheckpoint> initial_checkpoints) {
  {
    const MutexLock lock(mutex_);
    logical_shards_.assign(initial_checkpoints.size(), {});
  }
  for (std::size_t local_index = 0; local_index < initial_checkpoints.size(); ++local_index) {
    add(local_index, initial_checkpoints[local_index]);
  }
}

std::uint64_t CheckpointHistory::add(std::size_t local_index,
                                     const SavableDatasetCheckpoint& checkpoint) {
  const MutexLock lock(mutex_);
  writer_.clear();
  encode_checkpoint(writer_, checkpoint);
  add_to(logical_shards_[local_index], {{checkpoint.index, checkpoint.epoch}, writer_.bytes()});
  return writer_.bytes().size();
}

void CheckpointHistory::add(std::size_t local_index, std::string bytes) {
  const CheckpointPlace place = place_of_checkpoint(bytes);
  const MutexLock lock(mutex_);
  add_to(logical_shards_[local_index], {place, std::move(bytes)});
}

void CheckpointHistory::add_to(LogicalShard& logical_shard, Entry checkpoint) const {
  logical_shard.bytes += checkpoint.bytes.size();
  logical_shard.entries.push_back(std::move(checkpoint));
  while (logical_shard.entries.size() > 2 && logical_shard.bytes > bytes_per_logical_shard_) {
    logical_shard.bytes -= logical_shard.entries.front().bytes.size();
    logical_shard.entries.pop_front();
  }
}

void CheckpointHistory::forget_before(std::size_t local_index, const CheckpointPlace& position) {
  const MutexLock lock(mutex_);
  LogicalShard& of = logical_shards_[local_index];
  while (of.entries.size() > 1 && of.entries[1].place.leads_to(position)) {
    of.bytes -= of.entries.front().bytes.size();
    of.entries.pop_front();
  }
}

void CheckpointHistory::forget_after(std::size_t local_index, const CheckpointPlace& position) {
  const MutexLock lock(mutex_);
  LogicalShard& of = logical_shards_[local_index];
  while (!of.entries.empty() && !of.entries.back().place.leads_to(position)) {
    of.bytes -= of.entries.back().bytes.size();
    of.entries.pop_back();
  }
}

void CheckpointHistory::forget(std::size_t local_index) {
  const MutexLock lock(mutex_);
  logical_shards_[local_index] = {};
}

std::optional<CheckpointHistory::Entry> CheckpointHistory::newest(
    std::size_t local_index, const CheckpointPlace& position) const {
  const MutexLock lock(mutex_);
  const std::deque<Entry>& entries = logical_shards_[local_index].entries;
  const auto found =
      std::find_if(entries.rbegin(), entries.rend(),
                   [&position](const Entry& entry) { return entry.place.leads_to(position); });
  return found == entries.rend() ? std::nullopt : std::optional(*found);
}

std::optional<CheckpointPlace> CheckpointHistory::oldest(std::size_t local_index) const {
  const MutexLock lock(mutex_);
  const std::deque<Entry>& entries = logical_shards_[local_index].entries;
  return entries.empty() ? std::nullopt : std::optional(entries.front().place);
}

void LocalCheckpoints::keep(const PositionedDataset& pipeline) {
  const auto begin = std::chrono::steady_clock::now();
  const SavableDatasetCheckpoint checkpoint = pipeline.checkpoint();
  const std::uint64_t bytes = history_.add(local_index_, checkpoint);
  interval_.stored(checkpoint.index, bytes, std::chrono::steady_clock::now() - begin);
}

}  // namespace energon
