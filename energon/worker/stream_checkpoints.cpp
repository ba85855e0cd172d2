#include "energon/worker/stream_checkpoints.h"

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

StreamCheckpoints::StreamCheckpoints(WorkerEndpoint& channel, const LoaderOptions& options,
                                     int worker)
    : worker_(static_cast<std::size_t>(worker)),
      workers_(static_cast<std::size_t>(options.worker_config.workers_per_rank())) {
  const std::int64_t streams = share_of(options.worker_config.stream_count(), worker,
                                        options.worker_config.workers_per_rank());
  for (std::int64_t stream = 0; stream < streams; ++stream) {
    CheckpointWriter& ring = channel.checkpoints(static_cast<std::size_t>(stream));
    streams_.emplace_back(ring, ring.slots(), options.checkpoint_every_batches);
  }
}

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

void KeptPosition::keep(const PositionedDataset& stream) {
  const Clock::time_point begin = Clock::now();
  const SavableDatasetCheckpoint checkpoint = stream.checkpoint();
  const std::uint64_t bytes = history_.add(stream_, checkpoint);
  interval_.stored(checkpoint.index, bytes, Clock::now() - begin);
}

}  // namespace energon
