#include <chrono>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "energon/checkpoint/positioned_dataset.h"
#include "energon/loader/rank_stream.h"
#include "io/error.h"

// Earlier positions of a stream, and how it goes on from one of them, or from another state.

namespace energon {
namespace {

// How long the command threads of the workers have to say which checkpoints to take.
constexpr std::chrono::milliseconds kAnswerTime{100};

}  // namespace

std::int64_t RankStream::earliest() const {
  std::vector<CheckpointPlace> oldest;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    oldest.push_back(history_.oldest(i).value_or(position_.of(i)));
    const auto in_ring = running() ? group_->oldest_checkpoint(i) : std::nullopt;
    if (in_ring && *in_ring > place_of(start_[i])) {
      oldest.back() = *in_ring;  // the worker has given up the first ones of this run
    }
  }
  return position_.batch_index - deliveries_.batches_after(oldest, position_);
}

std::int64_t RankStream::earliest_state() const {
  check_process();
  const MutexLock lock(mutex_);
  return earliest();
}

void RankStream::check_reach(std::int64_t batch_index) const {
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
                fmt::format("batch index {} is negative; it is the number of batches delivered "
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
        fmt::format("the state after {} batches is not kept: the earliest one is that "
                    "after {} batches, of {} delivered. To reach back farther, raise "
                    "checkpoint_history ({} batches) or checkpoint_history_bytes (now {} bytes)",
                    batch_index, first, position_.batch_index, options_.checkpoint_history,
                    options_.checkpoint_history_bytes));
  }
}

RankStream::Indexes RankStream::ask_workers(std::int64_t batch_index) {
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
    return {};  // close() waits for this call, which needs no answers
  }
}

RankStream::Snapshot RankStream::snapshot_at(std::int64_t batch_index,
                                             const Indexes& answers) const {
  check_reach(batch_index);
  Snapshot result{deliveries_.position_at(batch_index, position_), {}};
  for (std::size_t i = 0; i < start_.size(); ++i) {
    result.streams.push_back(
        found_at(i, result.position, answers.empty() ? std::nullopt : answers[i]));
  }
  return result;
}

SavableDataLoaderState RankStream::state_at(std::int64_t batch_index, Access access) {
  check_process();
  const Indexes answers = access == Access::kAlone ? ask_workers(batch_index) : Indexes();
  const auto copied = [&] {
    const MutexLock lock(mutex_);
    return snapshot_at(batch_index, answers);
  }();
  return state_of(copied);
}

void RankStream::rewind(std::int64_t batch_index) {
  refuse_if_closed();
  check_process();
  const Indexes answers = ask_workers(batch_index);
  Snapshot target = [&] {
    const MutexLock lock(mutex_);
    return snapshot_at(batch_index, answers);
  }();
  std::vector<SavableDatasetCheckpoint> start = positions(target);
  forget_attempt();
  const bool is_running = running() || own_.running();
  const bool has_history = !is_running || keep_position(Reads::kSucceeded);
  own_.stop();
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

void RankStream::go_on_from(std::vector<SavableDatasetCheckpoint> start, RankPosition position) {
  failure_.reset();
  lost_position_.reset();
  start_ = std::move(start);
  position_ = std::move(position);
  position_.place.epoch_start.reset();
  now_ = position_.place;
  is_place_changed_ = false;
}

bool RankStream::has_position(const SavableDataLoaderState& state) const {
  const EpochPlace& place = position_.place;
  return !lost_position_ && state.batch_index == position_.batch_index &&
         state.epoch == place.turns.epoch() && state.epoch_finished == place.epoch_finished &&
         state.step_in_epoch == place.step_in_epoch &&
         state.streams == positions(snapshot(Access::kAlone));
}

void RankStream::restore_state(const SavableDataLoaderState& state) {
  refuse_if_closed();
  if (running()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("cannot restore while the {} workers of this loader run; restore "
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
  for (const SavableDatasetCheckpoint& stream : fitted.streams) {
    position.delivered.push_back(stream.index + stream.offset);
    position.certificates.push_back(stream.certificate);
    turns.push_back(stream.turn);
  }
  position.place = {Turns(std::move(turns), fitted.epoch), fitted.epoch_finished,
                    fitted.step_in_epoch};
  position.batch_index = fitted.batch_index;
  static_assert(std::is_nothrow_move_assignable_v<RankPosition>);
  static_assert(std::is_nothrow_move_assignable_v<decltype(start_)>);
  // Nothing below throws but for the history, which only state_at() needs: the state was tried on
  // fresh pipelines, and all memory is there.
  own_.stop();
  go_on_from(std::move(fitted.streams), std::move(position));
  if (!keeps_history) {
    sizes_.forget_started();
    begin_history();
  }
}

}  // namespace energon
