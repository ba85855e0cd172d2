#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_check.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/rank_stream.h"
#include "io/error.h"

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
  } catch (const Error& error) {
    lost_position_ = error;
  } catch (const std::exception& error) {
    lost_position_ = Error(ErrorCode::kResourceExhausted,
                           fmt::format("the position could not be kept: {}", error.what()));
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
  // Nothing below throws: the state was tried on fresh pipelines.
  own_.stop();
  failure_.reset();
  lost_position_.reset();
  sizes_.forget_started();
  start_ = std::move(fitted.streams);
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    delivered_[i] = start_[i].index + start_[i].offset;
    certificates_[i] = start_[i].certificate;
    turns.push_back(start_[i].turn);
  }
  now_ = {Turns(std::move(turns), fitted.epoch), fitted.epoch_finished, fitted.step_in_epoch};
  before_.reset();
  batch_index_ = fitted.batch_index;
}

std::optional<std::int64_t> RankStream::batches_left() const {
  return sizes_.left(start_, place().turns, epochs_ended());
}

}  // namespace energon
