// The position of a rank: how it is kept and read, earlier positions, and how the rank continues
// from one of them or from another state. Deliveries, which change it, are in rank_loader.cpp.

#include <algorithm>
#include <chrono>
#include <exception>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/rank_loader.h"
#include "io/error.h"

namespace energon {

// --- Keeping the position ---

// A failed next() has not changed the position.
void RankLoader::forget_attempt() {
  if (is_place_changed_) {
    const MutexLock lock(mutex_);
    now_ = position_.place;
    is_place_changed_ = false;
  }
}

// Called before the workers or pipelines end: sets start_ to the current position and copies the
// checkpoints before it into the history. Returns false if the history is lost.
bool RankLoader::keep_position(Reads reads) {
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

void RankLoader::take_history() {
  for (std::size_t i = 0; i < start_.size(); ++i) {
    const CheckpointPlace position = position_.of(i);
    if (!running()) {
      history_.forget_after(i, position);  // drops checkpoints of batches not delivered
      continue;
    }
    if (options_.checkpoint_history == 0) {
      continue;
    }
    const std::optional<CheckpointPlace> oldest = group_->oldest_checkpoint(i);
    if (oldest && *oldest > place_of(start_[i])) {
      history_.forget(i);  // the worker has dropped some later ones
    }
    for (std::string& checkpoint : group_->checkpoints_until(i, position)) {
      history_.add(i, std::move(checkpoint));
    }
    history_.forget_before(i, deliveries_.first(i, position_.place));
  }
}

void RankLoader::begin_history() {
  history_.begin(start_);
  deliveries_.begin(position_.delivered, position_.batch_index);
}

// --- Reading the position ---

// In a forked child, do not wait for the mutex nor read what the workers write.
void RankLoader::check_process() const {
  if (options_.worker_config.num_workers > 0) {
    owner_.check("a loader");
  }
}

RankLoader::Found RankLoader::found_at(std::size_t local_index, const RankPosition& position,
                                       const std::optional<std::int64_t>& answer) const {
  const CheckpointPlace place = position.of(local_index);
  const SavableDatasetCheckpoint& start = start_[local_index];
  const std::int64_t begin = start.index + start.offset;
  if (running()) {
    std::string encoded;
    if (answer) {
      encoded =
          group_->newest_checkpoint(local_index, {std::min(place.index, *answer), place.epoch});
    }
    if (encoded.empty()) {
      encoded = group_->newest_checkpoint(local_index, place);
    }
    if (!encoded.empty()) {
      return {std::move(encoded), {}};
    }
    if (place.index > begin) {
      check_reach(position.batch_index);  // the worker may just have dropped it
      // The start checkpoint cannot be used instead: samples left out since then may not be left
      // out again.
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("{} batches of logical shard {} were delivered, but the worker's memory "
                      "has no complete checkpoint: something wrote over it",
                      place.index, start.logical_shard),
          {.worker = options_.worker_config.worker_of(static_cast<int>(local_index))});
    }
  }
  std::optional<CheckpointHistory::Entry> kept = history_.newest(local_index, place);
  // A checkpoint of the history may follow samples, or a whole epoch, that were left out.
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

RankLoader::Snapshot RankLoader::snapshot(Access access, Reads reads) const {
  Snapshot result{position_, {}};
  if (access == Access::kAlone && reads == Reads::kSucceeded && local_.running()) {
    for (SavableDatasetCheckpoint& position : local_.positions()) {
      result.logical_shards.push_back({{}, std::move(position)});
    }
    return result;
  }
  for (std::size_t i = 0; i < start_.size(); ++i) {
    result.logical_shards.push_back(found_at(i, position_, std::nullopt));
  }
  return result;
}

std::vector<SavableDatasetCheckpoint> RankLoader::positions(const Snapshot& snapshot) const {
  std::vector<SavableDatasetCheckpoint> positions;
  for (std::size_t i = 0; i < snapshot.logical_shards.size(); ++i) {
    const Found& found = snapshot.logical_shards[i];
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

const Config& RankLoader::config() const {
  const MutexLock lock(config_mutex_);
  if (!config_) {
    config_ = state_config(make_pipeline_, options_.worker_config);
  }
  return *config_;
}

SavableDataLoaderState RankLoader::state_of(const Snapshot& snapshot) const {
  const EpochPlace& place = snapshot.position.place;
  SavableDataLoaderState state;
  state.config = config();
  state.checkpoints = positions(snapshot);
  state.next_worker_id = static_cast<std::int64_t>(place.turns.next().value_or(0));
  state.epoch = place.turns.epoch();
  state.epoch_finished = place.epoch_finished;
  state.batch_index = snapshot.position.batch_index;
  state.step_in_epoch = place.step_in_epoch;
  state.micro_batch_size = micro_batch_size(state.config);
  return state;
}

SavableDataLoaderState RankLoader::save_state(Access access) {
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

std::int64_t RankLoader::epochs_ended() const {
  check_process();
  const MutexLock lock(mutex_);
  return position_.place.turns.epoch() + (position_.place.epoch_finished ? 1 : 0);
}

std::optional<std::int64_t> RankLoader::batches_left() const {
  check_process();
  EpochPlace place;
  std::vector<SavableDatasetCheckpoint> checkpoints;
  {
    const MutexLock lock(mutex_);
    place = position_.place;
    checkpoints = start_;
  }
  return sizes_.left(checkpoints, place.turns,
                     place.turns.epoch() + (place.epoch_finished ? 1 : 0));
}

namespace {

// Deadline for the workers' command threads to choose the checkpoints.
constexpr std::chrono::milliseconds kAnswerTime{100};

}  // namespace

// --- Earlier positions ---

std::int64_t RankLoader::earliest() const {
  std::vector<CheckpointPlace> oldest;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    oldest.push_back(history_.oldest(i).value_or(position_.of(i)));
    const auto in_ring = running() ? group_->oldest_checkpoint(i) : std::nullopt;
    if (in_ring && *in_ring > place_of(start_[i])) {
      oldest.back() = *in_ring;  // the worker has dropped the first ones of this run
    }
  }
  return position_.batch_index - deliveries_.batches_after(oldest, position_);
}

std::int64_t RankLoader::earliest_state() const {
  check_process();
  const MutexLock lock(mutex_);
  return earliest();
}

void RankLoader::check_reach(std::int64_t batch_index) const {
  if (lost_position_) {
    throw *lost_position_;
  }
  if (batch_index > position_.batch_index) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot go to batch {}: only {} batches have been delivered",
                            batch_index, position_.batch_index));
  }
  if (batch_index < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("batch index {} is negative; expected the number of batches delivered "
                            "before the position",
                            batch_index));
  }
  if (batch_index < deliveries_.begin_index()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the state after {} batches is not known: the history of this loader "
                            "begins at batch {}, where it was restored; restore an earlier "
                            "checkpoint instead",
                            batch_index, deliveries_.begin_index()));
  }
  if (const std::int64_t first = earliest(); batch_index < first) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the state after {} batches is not kept: the earliest one is "
                    "after {} batches, of {} delivered. To reach back farther, raise "
                    "checkpoint_history ({} batches) or checkpoint_history_bytes (now {} bytes)",
                    batch_index, first, position_.batch_index, options_.checkpoint_history,
                    options_.checkpoint_history_bytes));
  }
}

RankLoader::Indexes RankLoader::ask_workers(std::int64_t batch_index) {
  if (!running()) {
    return {};
  }
  const auto delivered = [&] {
    const MutexLock lock(mutex_);
    check_reach(batch_index);
    return deliveries_.position_at(batch_index, position_).delivered;
  }();
  check_.begin();
  try {
    return group_->ask_for_checkpoints(delivered, deadline_after(kAnswerTime));
  } catch (const Error&) {
    if (!check_.is_closed()) {
      throw;
    }
    return {};  // close() waits for this call, so do not wait for answers
  }
}

RankLoader::Snapshot RankLoader::snapshot_at(std::int64_t batch_index,
                                             const Indexes& answers) const {
  check_reach(batch_index);
  Snapshot result{deliveries_.position_at(batch_index, position_), {}};
  for (std::size_t i = 0; i < start_.size(); ++i) {
    result.logical_shards.push_back(
        found_at(i, result.position, answers.empty() ? std::nullopt : answers[i]));
  }
  return result;
}

SavableDataLoaderState RankLoader::state_at(std::int64_t batch_index, Access access) {
  check_process();
  const Indexes answers = access == Access::kAlone ? ask_workers(batch_index) : Indexes();
  const auto copied = [&] {
    const MutexLock lock(mutex_);
    return snapshot_at(batch_index, answers);
  }();
  return state_of(copied);
}

void RankLoader::rewind(std::int64_t batch_index) {
  refuse_if_closed();
  check_process();
  const Indexes answers = ask_workers(batch_index);
  Snapshot target = [&] {
    const MutexLock lock(mutex_);
    return snapshot_at(batch_index, answers);
  }();
  std::vector<SavableDatasetCheckpoint> start = positions(target);
  forget_attempt();
  const bool is_running = running() || local_.running();
  const bool has_history = !is_running || keep_position(Reads::kSucceeded);
  local_.stop();
  if (group_) {
    group_->stop();
  }
  const MutexLock lock(mutex_);
  deliveries_.go_back(batch_index, position_);
  for (std::size_t i = 0; i < start.size(); ++i) {
    history_.forget_after(i, target.position.of(i));
  }
  go_on_from(std::move(start), std::move(target.position));
  if (!has_history) {
    begin_history();
  }
}

void RankLoader::go_on_from(std::vector<SavableDatasetCheckpoint> start, RankPosition position) {
  failure_.reset();
  lost_position_.reset();
  start_ = std::move(start);
  position_ = std::move(position);
  position_.place.epoch_start.reset();
  now_ = position_.place;
  is_place_changed_ = false;
}

bool RankLoader::has_position(const SavableDataLoaderState& state) const {
  const EpochPlace& place = position_.place;
  return !lost_position_ && state.batch_index == position_.batch_index &&
         state.epoch == place.turns.epoch() && state.epoch_finished == place.epoch_finished &&
         state.step_in_epoch == place.step_in_epoch &&
         state.checkpoints == positions(snapshot(Access::kAlone));
}

void RankLoader::restore_state(const SavableDataLoaderState& state) {
  refuse_if_closed();
  if (running()) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("cannot restore while the {} workers of this loader are running; restore "
                    "before the first next(), or "
                    "call stop() first",
                    options_.worker_config.num_workers));
  }
  SavableDataLoaderState fitted =
      fit_state(state, config(), make_pipeline_, options_.worker_config);
  const MutexLock lock(mutex_);
  const bool keeps_history = has_position(fitted);
  RankPosition position;
  std::vector<Turn> turns;
  for (const SavableDatasetCheckpoint& checkpoint : fitted.checkpoints) {
    position.delivered.push_back(checkpoint.index + checkpoint.offset);
    position.certificates.push_back(checkpoint.certificate);
    turns.push_back(checkpoint.turn);
  }
  position.place = {Turns(std::move(turns), fitted.epoch), fitted.epoch_finished,
                    fitted.step_in_epoch};
  position.batch_index = fitted.batch_index;
  static_assert(std::is_nothrow_move_assignable_v<RankPosition>);
  static_assert(std::is_nothrow_move_assignable_v<decltype(start_)>);
  // Below, only the history can throw, which only state_at() needs: the state was tested on fresh
  // pipelines, and all memory is allocated.
  local_.stop();
  go_on_from(std::move(fitted.checkpoints), std::move(position));
  if (!keeps_history) {
    sizes_.forget_started();
    begin_history();
  }
}

// --- DeliveryLog ---

void DeliveryLog::begin(std::vector<std::int64_t> delivered, std::int64_t batch_index) {
  entries_.clear();
  places_.clear();
  batches_ = 0;
  begin_index_ = batch_index;
  first_counts_ = std::move(delivered);
}

void DeliveryLog::push(Entry entry) {
  entries_.push_back(std::move(entry));
  if (const EpochPlace* place = entries_.back().place.get()) {
    places_.push_back(place);
  }
}

// Returns whether the entry had a place.
bool DeliveryLog::pop_oldest() {
  const bool is_place = entries_.front().place != nullptr;
  if (is_place) {
    places_.pop_front();
  }
  entries_.pop_front();
  return is_place;
}

std::optional<DeliveryLog::Forgotten> DeliveryLog::add_batch(std::size_t local_index,
                                                             const Certificate& certificate,
                                                             std::optional<EpochPlace> place) {
  push({static_cast<std::uint32_t>(local_index), certificate,
        place ? std::make_unique<const EpochPlace>(std::move(*place)) : nullptr});
  if (batches_ < most_) {
    ++batches_;
    return std::nullopt;
  }
  bool is_place = false;
  while (entries_.front().local_index == kNoLogicalShard) {
    is_place = pop_oldest() || is_place;
  }
  const std::size_t oldest = entries_.front().local_index;
  is_place = pop_oldest() || is_place;
  ++first_counts_[oldest];
  return Forgotten{oldest, is_place};
}

void DeliveryLog::add_end(EpochPlace place) {
  if (!entries_.empty() && entries_.back().local_index == kNoLogicalShard) {
    return;  // an epoch without a batch: both ends are undone together
  }
  push({kNoLogicalShard, {}, std::make_unique<const EpochPlace>(std::move(place))});
}

CheckpointPlace DeliveryLog::first(std::size_t local_index, const EpochPlace& now) const {
  const EpochPlace& place = places_.empty() ? now : *places_.front();
  return {first_counts_[local_index], place.turns.of(local_index).epoch};
}

void DeliveryLog::undo(const Entry& entry, RankPosition& position) {
  if (entry.local_index != kNoLogicalShard) {
    position.certificates[entry.local_index] = entry.certificate;
    --position.delivered[entry.local_index];
    --position.batch_index;
    if (!entry.place) {
      position.place.turns.give_back(entry.local_index);
      if (position.place.step_in_epoch) {
        --*position.place.step_in_epoch;
      }
    }
  }
  if (entry.place) {
    position.place = *entry.place;
  }
}

// Also counts ends of epochs after that batch.
std::size_t DeliveryLog::entries_after(std::int64_t batch_index, std::int64_t now) const {
  std::size_t entries = 0;
  while (entries < entries_.size()) {
    const bool is_batch = entries_[entries_.size() - 1 - entries].local_index != kNoLogicalShard;
    if (is_batch && now == batch_index) {
      break;
    }
    now -= is_batch ? 1 : 0;
    ++entries;
  }
  return entries;
}

RankPosition DeliveryLog::position_at(std::int64_t batch_index, RankPosition now) const {
  const std::size_t last = entries_after(batch_index, now.batch_index);
  for (std::size_t i = 0; i < last; ++i) {
    undo(entries_[entries_.size() - 1 - i], now);
  }
  return now;
}

void DeliveryLog::go_back(std::int64_t batch_index, const RankPosition& now) {
  for (std::size_t left = entries_after(batch_index, now.batch_index); left > 0; --left) {
    batches_ -= entries_.back().local_index != kNoLogicalShard ? 1 : 0;
    if (entries_.back().place) {
      places_.pop_back();
    }
    entries_.pop_back();
  }
}

std::int64_t DeliveryLog::batches_after(std::span<const CheckpointPlace> oldest,
                                        const RankPosition& now) const {
  std::vector<std::int64_t> delivered = now.delivered;
  bool is_in_reach = true;
  std::int64_t batches = 0;
  for (auto entry = entries_.rbegin(); entry != entries_.rend(); ++entry) {
    if (entry->local_index != kNoLogicalShard) {
      if (!is_in_reach) {  // after ends of epochs that are undone with the previous batch
        break;
      }
      ++batches;
      is_in_reach = --delivered[entry->local_index] >= oldest[entry->local_index].index;
    }
    for (std::size_t i = 0; entry->place && i < oldest.size(); ++i) {
      is_in_reach = is_in_reach && entry->place->turns.of(i).epoch >= oldest[i].epoch;
    }
  }
  return is_in_reach || batches == 0 ? batches : batches - 1;
}

}  // namespace energon
