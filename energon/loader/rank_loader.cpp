#include "energon/loader/rank_loader.h"

#include <algorithm>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "energon/worker/channel_sizes.h"
#include "io/error.h"

namespace energon {

using Clock = std::chrono::steady_clock;

RankLoader::RankLoader(std::string_view type, PipelineFactory make_pipeline,
                       const LoaderOptions& options)
    : type_(type),
      make_pipeline_(std::move(make_pipeline)),
      options_(options),
      check_(options.wait_check),
      failures_(options.quarantine_file),
      history_(history_bytes_per_logical_shard(options)),
      deliveries_(options.checkpoint_history) {
  validate(options_);
  const auto logical_shards =
      static_cast<std::size_t>(options_.worker_config.logical_shards_per_rank());
  start_.resize(logical_shards);
  for (std::size_t i = 0; i < logical_shards; ++i) {
    start_[i].logical_shard = options_.worker_config.logical_shard(static_cast<int>(i));
  }
  position_.delivered.resize(logical_shards);
  position_.certificates.resize(logical_shards);
  position_.place.turns = Turns(std::vector<Turn>(logical_shards), 0);
  now_ = position_.place;
  begin_history();
  if (options_.worker_config.num_workers > 0) {
    group_ = std::make_unique<WorkerGroup>(make_pipeline_, options_, failures_, check_);
  }
  log_ = DebugLog(options_.debug_log_path, options_.worker_config, std::nullopt);
  log("__init__");
}

void RankLoader::log(std::string_view event) { log(event, Config::object()); }

void RankLoader::log(std::string_view event, const Config& more) {
  if (!log_.enabled()) {
    return;
  }
  Config line = {{"t", fmt::format("{}.{}", type_, event)},
                 {"r", options_.worker_config.rank},
                 {"w", nullptr}};
  line.update(more);
  log_.write(line);
}

// Called before `batch` is counted, so that a log that cannot be written loses no batch.
void RankLoader::log_yield(std::size_t local_index, const Sample& batch) {
  if (!log_.enabled()) {
    return;
  }
  const int worker = options_.worker_config.worker_of(static_cast<int>(local_index));
  std::int64_t of_worker = 0;
  {
    const MutexLock lock(mutex_);
    for (std::size_t i = 0; i < position_.delivered.size(); ++i) {
      if (options_.worker_config.worker_of(static_cast<int>(i)) == worker) {
        of_worker += position_.delivered[i];
      }
    }
  }
  log("yield", {{"worker_id", worker},
                {"worker_idx", of_worker},
                {"idx", delivered_batches()},
                {"iter_idx", *iter_index_},
                {"global_idx", global_index_},
                {"keys", batch.keys.strings()}});
}

std::int64_t RankLoader::delivered_batches() const {
  const MutexLock lock(mutex_);
  return position_.batch_index;
}

// The run keeps a view of start_, which does not change until the run ends.
void RankLoader::start() {
  config();  // snapshot now: saved states must describe the data that was actually read
  std::span<const SavableDatasetCheckpoint> initial_checkpoints;
  {
    const MutexLock lock(mutex_);
    initial_checkpoints = start_;
  }
  if (group_) {
    group_->start(initial_checkpoints, now_.turns.epoch());
    return;
  }
  local_.start(initial_checkpoints);
}

// An epoch is empty if all of its samples failed. Other ranks have batches and do not know about
// it, so next() returns the end. Only a rank that continues by itself would search forever.
void RankLoader::count_lost_epoch() {
  const std::optional<EpochStart>& start = now_.epoch_start;
  if (!start || start->batches != delivered_batches() || start->failures == failures_.size()) {
    return;
  }
  if (options_.epoch_policy == EpochPolicy::kStrict) {
    const MutexLock lock(mutex_);
    ++consumer_.lost_epochs;
    return;
  }
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("no sample in this epoch of rank {} could be used: all were left out, with {} "
                  "failures; stats() lists them, and on_error fail shows the first",
                  options_.worker_config.rank, failures_.size() - start->failures));
}

void RankLoader::start_epoch() {
  is_place_changed_ = true;
  now_.epoch_start = {delivered_batches(), failures_.size()};
  now_.turns.start_epoch();
  now_.epoch_finished = false;
  now_.step_in_epoch = 0;
  if (running() && group_->has_dead_worker()) {
    replace_workers();
  } else if (running()) {
    group_->start_epoch(now_.turns.epoch());
  }
}

// A worker that died after its whole epoch was delivered lost nothing: all workers are restarted.
void RankLoader::replace_workers() {
  keep_position(Reads::kSucceeded);
  group_->stop();
  {
    const MutexLock lock(mutex_);
    if (lost_position_) {
      throw *lost_position_;
    }
  }
  start();
}

std::optional<Sample> RankLoader::read(std::size_t local_index) {
  if (!group_) {
    return local_.read(local_index, now_.turns.of(local_index));
  }
  try {
    return group_->read(local_index);
  } catch (const Error& error) {
    // A killed process may still appear alive when the epoch starts.
    if (error.code() != ErrorCode::kWorkerDied || !group_->died_before_epoch(local_index)) {
      throw;
    }
  }
  replace_workers();
  return group_->read(local_index);
}

std::optional<Sample> RankLoader::next() {
  check_process();
  refuse_if_closed();
  const Clock::time_point begin = Clock::now();
  if (returned_at_) {
    const MutexLock lock(mutex_);
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
  } else {
    iter_index_.reset();
  }
  returned_at_ = Clock::now();
  count_for_statistics(batch, *returned_at_ - begin);
  if (check_.is_closed()) {
    end_for_good();  // requested by a function within this call; another thread ends it itself
  }
  return batch;
}

void RankLoader::count_for_statistics(const std::optional<Sample>& batch,
                                      std::chrono::nanoseconds wait) {
  const std::uint64_t bytes = batch ? payload_bytes(*batch) : 0;
  const MutexLock lock(mutex_);
  if (batch) {
    ++consumer_.batches;
    consumer_.samples += std::max<std::size_t>(batch->keys.size(), 1);
    consumer_.bytes += bytes;
  }
  consumer_.worker_wait += wait;
}

// Adds the batch of read() to the position and sets its place. Note [Position].
void RankLoader::count_delivery(std::size_t local_index, Sample& batch) {
  log_yield(local_index, batch);
  const Turn turn = now_.turns.of(local_index);
  batch.place = {options_.worker_config.logical_shard(static_cast<int>(local_index)), turn.epoch,
                 turn.count};
  const auto take_turn = [local_index](EpochPlace& place) {
    place.turns.take(local_index);
    if (place.step_in_epoch) {
      ++*place.step_in_epoch;
    }
  };
  take_turn(now_);
  const MutexLock lock(mutex_);
  std::optional<EpochPlace> before;
  if (std::exchange(is_place_changed_, false)) {
    before = std::exchange(position_.place, now_);
  } else {
    take_turn(position_.place);
  }
  const std::optional<DeliveryLog::Forgotten> forgotten =
      deliveries_.add_batch(local_index, position_.certificates[local_index], std::move(before));
  for (std::size_t i = 0; forgotten && i < start_.size(); ++i) {
    if (i == forgotten->local_index || forgotten->is_place) {
      history_.forget_before(i, deliveries_.first(i, position_.place));
    }
  }
  extend(position_.certificates[local_index], batch);
  ++position_.delivered[local_index];
  ++position_.batch_index;
  if (group_) {
    group_->take(local_index);
  }
}

void RankLoader::count_end() {
  now_.epoch_finished = true;
  is_place_changed_ = false;
  const MutexLock lock(mutex_);
  deliveries_.add_end(std::exchange(position_.place, now_));
}

std::optional<Sample> RankLoader::advance() {
  if (failure_) {
    throw *failure_;
  }
  check_.begin();
  try {
    if (now_.epoch_finished) {
      start_epoch();
    }
    if (!running() && !local_.running()) {
      if (delivered_batches() == 0) {
        is_place_changed_ = true;
        now_.epoch_start = {0, failures_.size()};
      }
      start();
    }
    if (std::optional<Sample> batch = next_in_turn()) {
      return batch;
    }
    log("StopIteration");
  } catch (...) {
    if (check_.has_ended_wait()) {
      end_interrupted();
      check_.rethrow();
    }
    failure_ = to_error(std::current_exception(), "the pipeline");
    end_failed();
    throw *failure_;
  }
  count_end();
  return std::nullopt;
}

void RankLoader::end_failed() {
  forget_attempt();
  keep_position(Reads::kFailed);
  local_.stop();
  if (group_) {
    group_->stop();
  }
}

// Workers continue, so what next() has taken from them stays taken (now_ is ahead of the position).
// Pipelines in this process stopped in the middle of a batch: the next call recreates them.
void RankLoader::end_interrupted() {
  if (local_.running()) {
    forget_attempt();
    keep_position(Reads::kFailed);
    local_.stop();
    const MutexLock lock(mutex_);
    failure_ = lost_position_;
  } else if (!running()) {
    forget_attempt();
  }
  if (check_.is_closed()) {
    end_for_good();
  }
}

// Continues with the next epoch unless the policy ends each epoch.
std::optional<Sample> RankLoader::next_in_turn() {
  while (true) {
    while (const std::optional<std::size_t> local_index = now_.turns.next()) {
      if (std::optional<Sample> batch = read(*local_index)) {
        count_delivery(*local_index, *batch);
        return batch;
      }
      is_place_changed_ = true;
      now_.turns.end_epoch(*local_index);
    }
    count_lost_epoch();
    const bool was_empty = now_.epoch_start && now_.epoch_start->batches == delivered_batches();
    if (options_.epoch_policy == EpochPolicy::kStrict || was_empty) {
      return std::nullopt;
    }
    start_epoch();
  }
}

void RankLoader::stop() {
  if (running()) {
    const std::optional<Error> death = group_->death(now_.turns);
    forget_attempt();
    keep_position(Reads::kSucceeded);
    group_->stop();
    {
      const MutexLock lock(mutex_);
      if (lost_position_) {
        failure_ = lost_position_;  // otherwise the next next() would start where this run started
      }
    }
    if (failure_) {
      throw *failure_;
    }
    if (death) {
      throw *death;
    }
  }
}

void RankLoader::close() {
  check_process();
  check_.close();
  if (const std::optional<OneCaller::Call> call = caller_.enter_after_others("close()")) {
    end_for_good();
  }
}

void RankLoader::end_for_good() {
  if (std::exchange(is_ended_, true)) {
    return;
  }
  forget_attempt();
  if (running() || local_.running()) {
    keep_position(Reads::kSucceeded);
  }
  local_.stop();
  if (group_) {
    group_->stop();
    std::unique_ptr<WorkerGroup> ended;  // destroyed without the lock, since that takes a while
    const MutexLock lock(mutex_);
    ended_workers_ = group_->statistics();
    ended.swap(group_);
  }
}

void RankLoader::refuse_if_closed() {
  if (check_.is_closed()) {
    end_for_good();
    throw Error(
        ErrorCode::kCancelled,
        "the loader is closed: close() was called; make a new loader and restore its state");
  }
}

LoaderStatistics RankLoader::stats() const {
  check_process();
  LoaderStatistics statistics{.num_workers = options_.worker_config.num_workers};
  std::vector<CertificatePart> parts;
  {
    const MutexLock lock(mutex_);
    const bool has_workers = options_.worker_config.num_workers > 0;
    statistics.consumer = consumer_;
    statistics.workers = group_        ? group_->statistics()
                         : has_workers ? ended_workers_
                                       : std::vector<WorkerStatistics>{local_.statistics()};
    for (std::size_t i = 0; i < start_.size(); ++i) {
      parts.push_back({start_[i].logical_shard, position_.certificates[i]});
    }
    statistics.batch_index = position_.batch_index;
    statistics.earliest_state = earliest();
  }
  statistics.certificate = combine(parts);
  failures_.fill(statistics);
  return statistics;
}

std::vector<int> RankLoader::worker_pids() const {
  check_process();
  const MutexLock lock(mutex_);
  return group_ ? group_->worker_pids() : std::vector<int>();
}

// --- OneCaller ---

void OneCaller::begin(const char* what, bool is_brief) {
  running_ = what;
  is_brief_ = is_brief;
  thread_ = std::this_thread::get_id();
}

void OneCaller::wait() {
  ++waiting_;
  ended_.wait(mutex_);
  --waiting_;
}

OneCaller::Call OneCaller::enter(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const MutexLock lock(mutex_);
  while (running_ != nullptr) {
    if (!is_brief_ || is_in_call()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} was called while {} of the same loader {}; a loader is for one "
                              "thread at a time: give each thread its own loader, or use a mutex",
                              what, running_,
                              is_in_call() ? "was calling a function in this thread"
                                           : "ran in another thread"));
    }
    wait();
  }
  begin(what, false);
  return Call(this);
}

std::optional<OneCaller::Call> OneCaller::enter_briefly(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const MutexLock lock(mutex_);
  while (running_ != nullptr && is_brief_ && waiting_ == 0 && !is_in_call()) {
    ended_.wait(mutex_);
  }
  if (running_ != nullptr || waiting_ > 0) {
    return std::nullopt;
  }
  begin(what, true);
  return Call(this);
}

std::optional<OneCaller::Call> OneCaller::enter_after_others(const char* what) {
  if (!owner_.is_current()) {
    return Call(nullptr);
  }
  const MutexLock lock(mutex_);
  while (running_ != nullptr) {
    if (is_in_call()) {
      return std::nullopt;
    }
    wait();
  }
  begin(what, false);
  return Call(this);
}

void OneCaller::leave() {
  const MutexLock lock(mutex_);
  running_ = nullptr;
  ended_.notify_all();
}

}  // namespace energon
