#include "energon/loader/rank_stream.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/checkpoint/state_check.h"
#include "energon/checkpoint/state_config.h"
#include "energon/loader/pipeline_failure.h"
#include "io/error.h"

namespace energon {

using Clock = std::chrono::steady_clock;

RankStream::RankStream(std::string_view type, PipelineFactory make_pipeline,
                       const LoaderOptions& options)
    : type_(type),
      make_pipeline_(std::move(make_pipeline)),
      options_(options),
      failures_(options.quarantine_file) {
  validate(options_);
  const auto streams = static_cast<std::size_t>(options_.worker_config.stream_count());
  start_.resize(streams);
  for (std::size_t i = 0; i < streams; ++i) {
    start_[i].logical_shard = options_.worker_config.logical_shard(static_cast<int>(i));
  }
  delivered_.resize(streams);
  certificates_.resize(streams);
  turns_ = Turns(std::vector<Turn>(streams), 0);
  if (options_.worker_config.num_workers > 0) {
    group_ = std::make_unique<WorkerGroup>(make_pipeline_, options_, failures_);
  }
  log_ = DebugLog(options_.debug_log_path, options_.worker_config, std::nullopt);
  log("__init__");
}

std::int64_t RankStream::delivered_by(int worker) const {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < delivered_.size(); ++i) {
    if (options_.worker_config.worker_of(static_cast<int>(i)) == worker) {
      sum += delivered_[i];
    }
  }
  return sum;
}

void RankStream::log(std::string_view event) { log(event, Config::object()); }

void RankStream::log(std::string_view event, const Config& more) {
  if (!log_.enabled()) {
    return;
  }
  Config line = {{"t", fmt::format("{}.{}", type_, event)},
                 {"r", options_.worker_config.rank},
                 {"w", nullptr}};
  line.update(more);
  log_.write(line);
}

// Before `batch` is counted: a log that cannot be written loses no batch.
void RankStream::log_yield(std::size_t stream, const Sample& batch) {
  if (!log_.enabled()) {
    return;
  }
  const int worker = options_.worker_config.worker_of(static_cast<int>(stream));
  log("yield", {{"worker_id", worker},
                {"worker_idx", delivered_by(worker)},
                {"idx", batch_index_},
                {"iter_idx", *iter_index_},
                {"global_idx", global_index_},
                {"keys", batch.keys.strings()}});
}

void RankStream::start() {
  config();  // of the data as it is now: a state is of what was read
  if (group_) {
    group_->start(start_, turns_.epoch());
    return;
  }
  own_.start(start_);
}

void RankStream::check_epoch_was_usable() const {
  if (!epoch_start_ || epoch_start_->batches != batch_index_ ||
      epoch_start_->failures == failures_.size()) {
    return;
  }
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("nothing in this epoch of rank {} could be used: all was left out, with {} "
                  "failures; stats() lists them, and on_error fail shows the first",
                  options_.worker_config.rank, failures_.size() - epoch_start_->failures));
}

void RankStream::start_epoch() {
  remember_turns();
  epoch_start_ = {batch_index_, failures_.size()};
  turns_.start_epoch();
  epoch_finished_ = false;
  step_in_epoch_ = 0;
  if (running()) {
    group_->start_epoch(turns_.epoch());
  }
}

std::optional<Sample> RankStream::read(std::size_t stream) {
  return group_ ? group_->read(stream) : own_.read(stream, turns_.of(stream));
}

std::optional<Sample> RankStream::next() {
  const Clock::time_point begin = Clock::now();
  if (returned_at_) {
    consumer_.own_time += begin - *returned_at_;
  }
  if (!iter_index_) {
    iter_index_ = 0;
    log("iter");
  }
  std::optional<Sample> batch = advance();
  if (batch) {
    ++*iter_index_;
    ++global_index_;
    ++consumer_.batches;
    consumer_.samples += std::max<std::size_t>(batch->keys.size(), 1);
    consumer_.bytes += payload_bytes(*batch);
  } else {
    iter_index_.reset();
  }
  returned_at_ = Clock::now();
  consumer_.worker_wait += *returned_at_ - begin;
  return batch;
}

void RankStream::remember_turns() {
  if (!place_before_) {
    place_before_ = {turns_, epoch_finished_, step_in_epoch_};
  }
}

// A next() that failed changed nothing.
void RankStream::forget_attempt() {
  if (place_before_) {
    turns_ = std::move(place_before_->turns);
    epoch_finished_ = place_before_->epoch_finished;
    step_in_epoch_ = place_before_->step_in_epoch;
    place_before_.reset();
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

// What read() gave becomes part of the position, and gets its place.
void RankStream::count_delivery(std::size_t stream, Sample& batch) {
  log_yield(stream, batch);
  const Turn& turn = turns_.of(stream);
  batch.place = {start_[stream].logical_shard, turn.epoch, turn.count};
  turns_.take(stream);
  ++delivered_[stream];
  if (group_) {
    group_->take(stream);
  }
  extend(certificates_[stream], batch);
  ++batch_index_;
  if (step_in_epoch_) {
    ++*step_in_epoch_;
  }
}

std::optional<Sample> RankStream::advance() {
  if (failure_) {
    throw *failure_;
  }
  place_before_.reset();
  try {
    if (epoch_finished_) {
      start_epoch();
    }
    if (!running() && !own_.running()) {
      if (batch_index_ == 0) {
        epoch_start_ = {0, failures_.size()};
      }
      start();
    }
    if (std::optional<Sample> batch = next_in_turn()) {
      return batch;
    }
    log("StopIteration");
  } catch (...) {
    failure_ = pipeline_failure(std::current_exception());
    forget_attempt();
    keep_position();
    own_.stop();
    if (group_) {
      group_->stop();
    }
    throw *failure_;
  }
  epoch_finished_ = true;
  return std::nullopt;
}

// Goes on in the next epoch where the policy does not end the stream with each.
std::optional<Sample> RankStream::next_in_turn() {
  while (true) {
    while (const std::optional<std::size_t> stream = turns_.next()) {
      if (std::optional<Sample> batch = read(*stream)) {
        count_delivery(*stream, *batch);
        return batch;
      }
      remember_turns();
      turns_.end_epoch(*stream);
    }
    check_epoch_was_usable();
    const bool was_empty = epoch_start_ && epoch_start_->batches == batch_index_;
    if (options_.epoch_policy == EpochPolicy::kStrict || was_empty) {
      return std::nullopt;
    }
    start_epoch();
  }
}

std::vector<SavableDatasetCheckpoint> RankStream::positions() {
  std::vector<SavableDatasetCheckpoint> positions;
  if (running()) {
    positions = group_->positions(delivered_);
  } else if (own_.running()) {
    positions = own_.positions(delivered_, failure_.has_value());
  } else {
    positions = start_;
  }
  for (std::size_t i = 0; i < positions.size(); ++i) {
    positions[i].logical_shard = start_[i].logical_shard;
    positions[i].turn = turns_.of(i);
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
  state.next_worker_id = static_cast<std::int64_t>(turns_.next().value_or(0));
  state.epoch = turns_.epoch();
  state.epoch_finished = epoch_finished_;
  state.batch_index = batch_index_;
  state.step_in_epoch = step_in_epoch_;
  state.micro_batch_size = micro_batch_size(state.config);
  return state;
}

void RankStream::restore_state(const SavableDataLoaderState& state) {
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
  start_ = std::move(fitted.streams);
  std::vector<Turn> turns;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    delivered_[i] = start_[i].index + start_[i].offset;
    certificates_[i] = start_[i].certificate;
    turns.push_back(start_[i].turn);
  }
  turns_ = Turns(std::move(turns), fitted.epoch);
  epoch_finished_ = fitted.epoch_finished;
  batch_index_ = fitted.batch_index;
  step_in_epoch_ = fitted.step_in_epoch;
  epoch_start_.reset();
}

std::optional<std::int64_t> RankStream::batches_left() const {
  const std::int64_t epoch = epochs_ended();
  HeapBufferPool memory;
  const auto readers = make_leaf_readers();
  std::int64_t left = 0;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    const Turn& turn = turns_.of(i);
    if (turn.epoch > epoch) {
      continue;
    }
    auto pipeline = make_pipeline_({.config = options_.worker_config,
                                    .stream = static_cast<int>(i),
                                    .memory = memory,
                                    .readers = readers});
    const std::optional<std::int64_t> size = pipeline->size();
    if (!size) {
      return std::nullopt;
    }
    const Turn& start = start_[i].turn;
    if (start.epoch == epoch && start.count > 0) {
      // Turns before a restore may be of batches of another size.
      PositionedDataset rest(std::move(pipeline));
      rest.restore(start_[i], epoch);
      left += rest.dataset().skip(*size) - (turn.count - start.count);
    } else {
      left += std::max<std::int64_t>(*size - turn.count, 0);
    }
  }
  return left;
}

void RankStream::stop() {
  if (running()) {
    const std::optional<Error> death = group_->death();
    keep_position();
    group_->stop();
    if (lost_position_) {
      failure_ = lost_position_;  // or the next next() would begin where this run began
      throw *failure_;
    }
    if (death) {
      throw *death;
    }
  }
}

LoaderStatistics RankStream::stats() const {
  LoaderStatistics statistics{.num_workers = options_.worker_config.num_workers,
                              .consumer = consumer_};
  statistics.workers =
      group_ ? group_->statistics() : std::vector<WorkerStatistics>{own_.statistics()};
  std::vector<CertificatePart> parts;
  for (std::size_t i = 0; i < start_.size(); ++i) {
    parts.push_back({start_[i].logical_shard, certificates_[i]});
  }
  statistics.certificate = combine(parts);
  failures_.fill(statistics);
  return statistics;
}

std::vector<int> RankStream::worker_pids() const {
  return group_ ? group_->worker_pids() : std::vector<int>();
}

}  // namespace energon
