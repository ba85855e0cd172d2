#include "energon/worker/checkpoint_history.h"

#include <algorithm>
#include <utility>

namespace energon {

void CheckpointHistory::begin(std::span<const SavableDatasetCheckpoint> starts) {
  {
    const MutexLock lock(mutex_);
    streams_.assign(starts.size(), {});
  }
  for (std::size_t stream = 0; stream < starts.size(); ++stream) {
    add(stream, starts[stream]);
  }
}

std::uint64_t CheckpointHistory::add(std::size_t stream,
                                     const SavableDatasetCheckpoint& checkpoint) {
  const MutexLock lock(mutex_);
  writer_.clear();
  encode_checkpoint(writer_, checkpoint);
  add_to(streams_[stream], {{checkpoint.index, checkpoint.epoch}, writer_.bytes()});
  return writer_.bytes().size();
}

void CheckpointHistory::add(std::size_t stream, std::string bytes) {
  const CheckpointPlace place = place_of_checkpoint(bytes);
  const MutexLock lock(mutex_);
  add_to(streams_[stream], {place, std::move(bytes)});
}

void CheckpointHistory::add_to(Stream& stream, Kept checkpoint) const {
  stream.bytes += checkpoint.bytes.size();
  stream.kept.push_back(std::move(checkpoint));
  while (stream.kept.size() > 2 && stream.bytes > bytes_per_stream_) {
    stream.bytes -= stream.kept.front().bytes.size();
    stream.kept.pop_front();
  }
}

void CheckpointHistory::forget_before(std::size_t stream, const CheckpointPlace& position) {
  const MutexLock lock(mutex_);
  Stream& of = streams_[stream];
  while (of.kept.size() > 1 && of.kept[1].place.leads_to(position)) {
    of.bytes -= of.kept.front().bytes.size();
    of.kept.pop_front();
  }
}

void CheckpointHistory::forget_after(std::size_t stream, const CheckpointPlace& position) {
  const MutexLock lock(mutex_);
  Stream& of = streams_[stream];
  while (!of.kept.empty() && !of.kept.back().place.leads_to(position)) {
    of.bytes -= of.kept.back().bytes.size();
    of.kept.pop_back();
  }
}

void CheckpointHistory::forget(std::size_t stream) {
  const MutexLock lock(mutex_);
  streams_[stream] = {};
}

std::optional<CheckpointHistory::Kept> CheckpointHistory::newest(
    std::size_t stream, const CheckpointPlace& position) const {
  const MutexLock lock(mutex_);
  const std::deque<Kept>& kept = streams_[stream].kept;
  const auto found = std::find_if(kept.rbegin(), kept.rend(), [&position](const Kept& one) {
    return one.place.leads_to(position);
  });
  return found == kept.rend() ? std::nullopt : std::optional(*found);
}

std::optional<CheckpointPlace> CheckpointHistory::oldest(std::size_t stream) const {
  const MutexLock lock(mutex_);
  const std::deque<Kept>& kept = streams_[stream].kept;
  return kept.empty() ? std::nullopt : std::optional(kept.front().place);
}

}  // namespace energon
