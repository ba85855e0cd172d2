#include "energon/loader/rank_stream.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/loader/state_check.h"
#include "io/error.h"

namespace energon {

using Clock = std::chrono::steady_clock;

RankStream::RankStream(std::string_view type, PipelineFactory make_pipeline,
                       const LoaderOptions& options)
    : type_(type),
      make_pipeline_(std::move(make_pipeline)),
      options_(options),
      failures_(options.quarantine_file),
      counted_(std::make_unique<StatisticsBlock>()) {
  validate(options_);
  const auto pipelines = static_cast<std::size_t>(options_.worker_config.pipelines_per_rank());
  start_.resize(pipelines);
  delivered_.resize(pipelines);
  ended_.resize(pipelines);
  if (options_.worker_config.num_workers > 0) {
    group_ = std::make_unique<WorkerGroup>(make_pipeline_, options_, failures_);
  }
  log_ = DebugLog(options_.debug_log_path, options_.worker_config, -1);
  log("__init__");
}

void RankStream::log(std::string_view event, const Sample* batch) {
  if (!log_.enabled()) {
    return;
  }
  Config line = {{"t", fmt::format("{}.{}", type_, event)},
                 {"r", options_.worker_config.rank},
                 {"w", nullptr}};
  if (batch != nullptr) {
    line["worker_id"] = last_worker_;
    line["worker_idx"] = delivered_[last_worker_] - 1;
    line["idx"] = batch_index_ - 1;
    line["iter_idx"] = iter_index_ - 1;
    line["global_idx"] = global_index_ - 1;
    line["keys"] = batch->keys;
  }
  log_.write(line);
}

void RankStream::start() {
  if (group_) {
    group_->start(start_, epoch_);
  } else {
    auto stream = std::make_unique<PositionedDataset>(make_pipeline_(
        {.config = options_.worker_config, .worker = 0, .memory = memory_, .monitor = monitor_}));
    stream->restore(start_[0], epoch_);
    in_process_ = std::move(stream);
  }
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
  epoch_start_ = {batch_index_, failures_.size()};
  ++epoch_;
  epoch_finished_ = false;
  next_worker_ = 0;
  std::fill(ended_.begin(), ended_.end(), false);
  if (running()) {
    group_->start_epoch(epoch_);
  } else if (in_process_) {
    in_process_->next_epoch();
  }
}

std::optional<Sample> RankStream::read(std::size_t worker) {
  const Clock::time_point begin = Clock::now();
  std::optional<Sample> batch = group_ ? group_->read(static_cast<int>(worker)) : read_in_process();
  consumer_.worker_wait += Clock::now() - begin;
  return batch;
}

std::optional<Sample> RankStream::read_in_process() {
  std::optional<Sample> batch;
  try {
    const BusyTime busy(*counted_, cpu_);
    batch = in_process_->next(options_.worker_config.logical_shard(0));
  } catch (...) {
    try {
      take_reports();
    } catch (const Error&) {
      // The quarantine file cannot be written; the failure of the pipeline says more.
    }
    throw;
  }
  take_reports();
  if (batch) {
    count_batch(*counted_);
  }
  return batch;
}

void RankStream::take_reports() {
  for (const FailureReport& report : monitor_.take_reports()) {
    failures_.add(report);
  }
}

std::optional<Sample> RankStream::next() {
  if (returned_at_) {
    consumer_.own_time += Clock::now() - *returned_at_;
  }
  if (iter_index_ < 0) {
    iter_index_ = 0;
    log("iter");
  }
  std::optional<Sample> batch = advance();
  if (batch) {
    ++iter_index_;
    ++global_index_;
    ++consumer_.batches;
    consumer_.samples += std::max<std::size_t>(batch->keys.size(), 1);
    consumer_.bytes += payload_bytes(*batch);
    log("yield", &*batch);
  } else {
    iter_index_ = -1;
    log("StopIteration");
  }
  returned_at_ = Clock::now();
  return batch;
}

std::optional<Sample> RankStream::advance() {
  if (failure_) {
    throw *failure_;
  }
  try {
    if (epoch_finished_) {
      start_epoch();
    }
    if (!running() && !in_process_) {
      if (batch_index_ == 0) {
        epoch_start_ = {0, failures_.size()};
      }
      start();
    }
    while (std::find(ended_.begin(), ended_.end(), false) != ended_.end()) {
      const std::size_t worker = std::exchange(next_worker_, (next_worker_ + 1) % ended_.size());
      if (ended_[worker]) {
        continue;
      }
      if (std::optional<Sample> sample = read(worker)) {
        last_worker_ = worker;
        ++delivered_[worker];
        ++batch_index_;
        return sample;
      }
      ended_[worker] = true;
    }
    check_epoch_was_usable();
  } catch (const Error& error) {
    failure_ = error;
    if (group_) {
      group_->stop();
    }
    throw;
  }
  epoch_finished_ = true;
  next_worker_ = 0;
  return std::nullopt;
}

std::vector<SavableDatasetCheckpoint> RankStream::positions() {
  if (running()) {
    return group_->get_checkpoints(delivered_);
  }
  if (in_process_) {
    return {in_process_->checkpoint()};
  }
  return start_;
}

const Config& RankStream::config() {
  if (!config_) {
    config_ = state_config(make_pipeline_, options_.worker_config);
  }
  return *config_;
}

SavableDataLoaderState RankStream::save_state() {
  if (failure_) {
    throw *failure_;
  }
  SavableDataLoaderState state;
  state.config = config();
  state.worker_states = positions();
  state.next_worker_id = static_cast<std::int64_t>(next_worker_);
  state.epoch = epoch_;
  state.epoch_finished = epoch_finished_;
  state.batch_index = batch_index_;
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
  in_process_.reset();
  failure_.reset();
  start_ = std::move(fitted.worker_states);
  for (std::size_t i = 0; i < start_.size(); ++i) {
    delivered_[i] = start_[i].index + start_[i].offset;
  }
  std::fill(ended_.begin(), ended_.end(), false);
  next_worker_ = static_cast<std::size_t>(fitted.next_worker_id);
  epoch_ = fitted.epoch;
  epoch_finished_ = fitted.epoch_finished;
  batch_index_ = fitted.batch_index;
  epoch_start_.reset();
}

void RankStream::stop() {
  if (running()) {
    start_ = positions();
    group_->stop();
    std::fill(ended_.begin(), ended_.end(), false);
  }
}

LoaderStatistics RankStream::stats() const {
  LoaderStatistics statistics{.num_workers = options_.worker_config.num_workers,
                              .consumer = consumer_};
  statistics.workers =
      group_ ? group_->statistics() : std::vector<WorkerStatistics>{read_statistics(*counted_)};
  failures_.fill(statistics);
  return statistics;
}

std::vector<int> RankStream::worker_pids() const {
  return group_ ? group_->worker_pids() : std::vector<int>();
}

}  // namespace energon
