#include <algorithm>
#include <exception>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_config.h"
#include "energon/loader/rank_stream.h"
#include "io/error.h"

// The position of a stream: what is kept, and how it is read. How it changes by deliveries is in
// rank_stream.cpp, how by going back or elsewhere in rank_stream_history.cpp.

namespace energon {

// A next() that failed changed nothing.
void RankStream::forget_attempt() {
  if (is_place_changed_) {
    const MutexLock lock(mutex_);
    now_ = position_.place;
    is_place_changed_ = false;
  }
}

// Called before the workers or pipelines end: moves start_ to the current position and copies the
// checkpoints before it into the history. Returns false if the history is lost.
bool RankStream::keep_position(Reads reads) {
  const MutexLock lock(mutex_);
  try {
    std::vector<SavableDatasetCheckpoint> reached = positions(snapshot(Access::kAlone, reads));
    take_history();
    start_ = std::move(reached);
    return true;
  } catch (...) {
    lost_position_ =
        to_error(std::current_exception(), "keeping the position", ErrorCode::kInternal);
  }
  return false;
}

void RankStream::take_history() {
  for (std::size_t i = 0; i < start_.size(); ++i) {
    const CheckpointPlace position = position_.of(i);
    if (!running()) {
      history_.forget_after(i, position);  // of a batch that was made and not delivered
      continue;
    }
    if (options_.checkpoint_history == 0) {
      continue;
    }
    const std::optional<CheckpointPlace> oldest = group_->oldest_checkpoint(i);
    if (oldest && *oldest > place_of(start_[i])) {
      history_.forget(i);  // the worker has given up some that follow
    }
    for (std::string& checkpoint : group_->checkpoints_until(i, position)) {
      history_.add(i, std::move(checkpoint));
    }
    history_.forget_before(i, deliveries_.first(i, position_.place));
  }
}

void RankStream::begin_history() {
  history_.begin(start_);
  deliveries_.begin(position_.delivered, position_.batch_index);
}

// --- Reading the position ---

// A copy in a forked child must neither wait for the mutex nor read what the workers write.
void RankStream::check_process() const {
  if (options_.worker_config.num_workers > 0) {
    owner_.check("a loader");
  }
}

RankStream::Found RankStream::found_at(std::size_t stream, const RankPosition& position,
                                       const std::optional<std::int64_t>& answer) const {
  const CheckpointPlace place = position.of(stream);
  const SavableDatasetCheckpoint& start = start_[stream];
  const std::int64_t begin = start.index + start.offset;
  if (running()) {
    std::string encoded;
    if (answer) {
      encoded = group_->newest_checkpoint(stream, {std::min(place.index, *answer), place.epoch});
    }
    if (encoded.empty()) {
      encoded = group_->newest_checkpoint(stream, place);
    }
    if (!encoded.empty()) {
      return {std::move(encoded), {}};
    }
    if (place.index > begin) {
      check_reach(position.batch_index);  // the worker may have given it up just now
      // The start would do, but for samples that were left out on the way and may not be again.
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("{} batches of logical shard {} were delivered, but the worker's memory "
                      "holds no whole checkpoint: something wrote over it",
                      place.index, start.logical_shard),
          {.worker = options_.worker_config.worker_of(static_cast<int>(stream))});
    }
  }
  std::optional<CheckpointHistory::Kept> kept = history_.newest(stream, place);
  // A checkpoint of the history may have been made after samples were left out, or a whole epoch.
  if (place.index == begin && start.epoch <= place.epoch &&
      (!kept || kept->place < place_of(start))) {
    return {{}, start};
  }
  if (!kept) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("no checkpoint of logical shard {} before its batch {} in epoch {} is "
                            "kept",
                            start.logical_shard, place.index, place.epoch));
  }
  return {std::move(kept->bytes), {}};
}

RankStream::Snapshot RankStream::snapshot(Access access, Reads reads) const {
  Snapshot result{position_, {}};
  if (access == Access::kAlone && reads == Reads::kSucceeded && own_.running()) {
    for (SavableDatasetCheckpoint& position : own_.positions()) {
      result.streams.push_back({{}, std::move(position)});
    }
    return result;
  }
  for (std::size_t i = 0; i < start_.size(); ++i) {
    result.streams.push_back(found_at(i, position_, std::nullopt));
  }
  return result;
}

std::vector<SavableDatasetCheckpoint> RankStream::positions(const Snapshot& snapshot) const {
  std::vector<SavableDatasetCheckpoint> positions;
  for (std::size_t i = 0; i < snapshot.streams.size(); ++i) {
    const Found& found = snapshot.streams[i];
    SavableDatasetCheckpoint& position = positions.emplace_back(found.position);
    if (!found.encoded.empty()) {
      ByteReader reader(found.encoded, "a checkpoint of a worker");
      position = decode_checkpoint(reader);
      position.offset = snapshot.position.delivered[i] - position.index;
    }
    position.logical_shard = options_.worker_config.logical_shard(static_cast<int>(i));
    position.turn = snapshot.position.place.turns.of(i);
    position.certificate = snapshot.position.certificates[i];
  }
  return positions;
}

const Config& RankStream::config() const {
  const MutexLock lock(config_mutex_);
  if (!config_) {
    config_ = state_config(make_pipeline_, options_.worker_config);
  }
  return *config_;
}

SavableDataLoaderState RankStream::state_of(const Snapshot& snapshot) const {
  const EpochPlace& place = snapshot.position.place;
  SavableDataLoaderState state;
  state.config = config();
  state.streams = positions(snapshot);
  state.next_worker_id = static_cast<std::int64_t>(place.turns.next().value_or(0));
  state.epoch = place.turns.epoch();
  state.epoch_finished = place.epoch_finished;
  state.batch_index = snapshot.position.batch_index;
  state.step_in_epoch = place.step_in_epoch;
  state.micro_batch_size = micro_batch_size(state.config);
  return state;
}

SavableDataLoaderState RankStream::save_state(Access access) {
  check_process();
  const auto copied = [&] {
    const MutexLock lock(mutex_);
    if (lost_position_) {
      throw *lost_position_;
    }
    return snapshot(access);
  }();
  return state_of(copied);
}

std::int64_t RankStream::epochs_ended() const {
  check_process();
  const MutexLock lock(mutex_);
  return position_.place.turns.epoch() + (position_.place.epoch_finished ? 1 : 0);
}

std::optional<std::int64_t> RankStream::batches_left() const {
  check_process();
  EpochPlace place;
  std::vector<SavableDatasetCheckpoint> starts;
  {
    const MutexLock lock(mutex_);
    place = position_.place;
    starts = start_;
  }
  return sizes_.left(starts, place.turns, place.turns.epoch() + (place.epoch_finished ? 1 : 0));
}

}  // namespace energon
