#include <algorithm>
#include <exception>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_check.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/rank_stream.h"
#include "io/error.h"
#include "io/error_transport.h"

// The position of a stream: what is saved, kept and restored. The rest is in rank_stream.cpp.

namespace energon {

void RankStream::remember_place() {
  if (!before_) {
    before_ = now_;
  }
}

// A next() that failed changed nothing.
void RankStream::forget_attempt() {
  if (before_) {
    now_ = std::move(*before_);
    before_.reset();
  }
}

// Before the workers or pipelines end: start_ becomes what was delivered.
void RankStream::keep_position() {
  try {
    start_ = positions();
  } catch (...) {
    lost_position_ =
        to_error(std::current_exception(), "keeping the position", ErrorCode::kInternal);
  }
}

std::vector<SavableDatasetCheckpoint> RankStream::positions() {
  std::vector<SavableDatasetCheckpoint> positions;
  if (running()) {
    positions = group_->positions(delivered_);
  } else if (own_.running()) {
    positions = own_.positions(delivered_, has_failed_reads_ || failure_.has_value());
  } else {
    positions = start_;
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i].logical_shard = start_[i].logical_shard;
    positions[i].turn = place().turns.of(i);
    positions[i].certificate = certificates_[i];
  }
  return positions;
}

const Config& RankStream::config() const {
  if (!config_) {
    config_ = state_config(make_pipeline_, options_.worker_config);
  }
  return *config_;
}

SavableDataLoaderState RankStream::save_state() {
  if (lost_position_) {
    throw *lost_position_;
  }
  SavableDataLoaderState state;
  state.config = config();
  state.streams = positions();
  state.next_worker_id = static_cast<std::int64_t>(place().turns.next().value_or(0));
  state.epoch = place().turns.epoch();
  state.epoch_finished = place().epoch_finished;
  state.batch_index = batch_index_;
  state.step_in_epoch = place().step_in_epoch;
  state.micro_batch_size = micro_batch_size(state.config);
  return state;
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
  std::vector<Turn> turns;
  for (const SavableDatasetCheckpoint& stream : fitted.streams) {
    turns.push_back(stream.turn);
  }
  Place restored{.turns = Turns(std::move(turns), fitted.epoch),
                 .epoch_finished = fitted.epoch_finished,
                 .step_in_epoch = fitted.step_in_epoch};
  static_assert(std::is_nothrow_move_assignable_v<Place>);
  static_assert(std::is_nothrow_move_assignable_v<decltype(start_)>);
  static_assert(std::is_nothrow_copy_assignable_v<Certificate>);
  // Nothing below throws: the state was tried on fresh pipelines, and all memory is there.
  own_.stop();
  failure_.reset();
  lost_position_.reset();
  sizes_.forget_started();
  start_ = std::move(fitted.streams);
  for (std::size_t i = 0; i < start_.size(); ++i) {
    delivered_[i] = start_[i].index + start_[i].offset;
    certificates_[i] = start_[i].certificate;
  }
  now_ = std::move(restored);
  before_.reset();
  batch_index_ = fitted.batch_index;
}

std::optional<std::int64_t> RankStream::batches_left() const {
  return sizes_.left(start_, place().turns, epochs_ended());
}

}  // namespace energon
