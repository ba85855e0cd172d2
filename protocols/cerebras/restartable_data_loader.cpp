#include "protocols/cerebras/restartable_data_loader.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/stage/dataset.h"
#include "io/error.h"

namespace energon {

// --- RestartableDataset ---

namespace {

State restartable_state(std::string start, std::int64_t worker_step, std::string checkpoints) {
  return {"Restartable",
          {{"start", std::move(start)},
           {"worker_step", worker_step},
           {"checkpoints", std::move(checkpoints)}},
          {}};
}

// Makes the state of a stage that starts from `aggregated` and has not run yet.
State start_from(const StateDict& aggregated, Strictness strictness) {
  const bool is_strict = strictness == Strictness::kStrict;
  return restartable_state(fmt::format(R"({{"strict":{},"state":{}}})", is_strict,
                                       to_text(aggregated, "the state to load")),
                           0, "");
}

// What a worker saved at `step`; nullopt if `state` has no such step.
std::optional<DataLoaderCheckpoint> checkpoint_at(const State& state, std::int64_t step) {
  const std::string& text = state.bytes("checkpoints");
  if (text.empty()) {
    return std::nullopt;
  }
  for (const StateDict& json : StateDict::parse(text)) {
    DataLoaderCheckpoint checkpoint = checkpoint_from_json(json);
    if (checkpoint.progress.step == step) {
      return checkpoint;
    }
  }
  return std::nullopt;
}

// Wraps a user's worker object as a Dataset, so that the loader runs it and keeps its states. The
// state of this stage is, before the first batch, the aggregated state to start from; later, what
// the object saved at steps of the schedule. Only the state before the first batch can be restored.
// Not thread-safe.
class RestartableDataset final : public Dataset {
 public:
  // Appends warnings of a load to `warnings`.
  RestartableDataset(std::unique_ptr<AnyWorker> object, const WorkerIdentity& worker, WorkerRun run,
                     std::shared_ptr<std::vector<std::string>> warnings);

  // A batch without a restore key gets one with the number of the worker's batch. Throws what the
  // object throws; Error: kCorruptData if an epoch of a repeating run has no batch;
  // kInvalidArgument if the schedule saves states and any batch but the last has another size.
  std::optional<Sample> next() override;
  void next_epoch() override {}
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  [[noreturn]] Sample restore_sample(const RestoreKey& key) override;
  // Calls the object's state_dict() for each step of the schedule at which this worker stands.
  State save_state() const override;
  Config config() const override { return {{"type", "Restartable"}, {"repeat", run_.repeat}}; }

 protected:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  // Calls the object's deaggregate_state_dict() and load_state_dict(). Throws what the object
  // throws.
  void apply_state(const State& state) override;

 private:
  void check_size(const Sample& batch);

  const std::unique_ptr<AnyWorker> object_;
  const WorkerIdentity worker_;
  const WorkerRun run_;
  const std::shared_ptr<std::vector<std::string>> warnings_;

  std::string start_;             // aggregated state and strictness as JSON, if any
  std::int64_t worker_step_ = 0;  // number of batches made
  std::int64_t samples_ = 0;      // number of samples in them
  std::int64_t epoch_ = 0;        // number of epochs that ended
  bool epoch_has_batch_ = false;
  std::optional<std::int64_t> batch_size_;
  std::optional<std::int64_t> other_size_;  // of the newest batch, if not batch_size_
};

RestartableDataset::RestartableDataset(std::unique_ptr<AnyWorker> object,
                                       const WorkerIdentity& worker, WorkerRun run,
                                       std::shared_ptr<std::vector<std::string>> warnings)
    : object_(std::move(object)),
      worker_(worker),
      run_(std::move(run)),
      warnings_(std::move(warnings)),
      batch_size_(run_.batch_size) {}

void RestartableDataset::check_size(const Sample& batch) {
  if (other_size_) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("batch {} of this worker has {} samples, the others have {}: if states are "
                    "saved, only the last batch may be smaller; drop incomplete batches",
                    worker_step_ - 1, *other_size_, *batch_size_));
  }
  const auto size = static_cast<std::int64_t>(batch.keys.size());
  if (!batch_size_) {
    batch_size_ = size;
  }
  if (size != *batch_size_) {
    other_size_ = size;
  }
}

std::optional<Sample> RestartableDataset::next() {
  std::optional<Sample> batch = object_->next();
  while (!batch && run_.repeat) {
    if (!epoch_has_batch_) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("epoch {} of the data of this worker had no batches", epoch_));
    }
    ++epoch_;
    epoch_has_batch_ = false;
    batch = object_->next();
  }
  if (!batch) {
    return std::nullopt;
  }
  if (run_.schedule.saves()) {
    check_size(*batch);
  }
  if (batch->restore_key.empty()) {
    batch->restore_key = RestoreKey::list(Stage::kBatch, {worker_step_}, {});
  }
  epoch_has_batch_ = true;
  ++worker_step_;
  samples_ += static_cast<std::int64_t>(batch->keys.size());
  return batch;
}

Sample RestartableDataset::restore_sample(const RestoreKey& /*key*/) {
  throw Error(ErrorCode::kUnsupported,
              "a user-defined worker object cannot rebuild a batch by its key");
}

State RestartableDataset::save_state() const {
  // The state of workers before their first batch is computed in the parent.
  if (worker_step_ == 0 || !object_->restartable()) {
    return restartable_state(start_, worker_step_, "");
  }
  StateDict checkpoints = StateDict::array();
  for (const std::int64_t step : run_.schedule.steps_at(worker_step_, worker_.local_worker_id,
                                                        worker_.num_workers_per_rank)) {
    DataLoaderCheckpoint checkpoint{.progress = {.worker = worker_,
                                                 .step = step,
                                                 .worker_step = worker_step_,
                                                 .samples_streamed = samples_}};
    const WorkerStateScope scope(checkpoint.progress);
    checkpoint.user_state_dict = object_->state_dict();
    require_text(checkpoint);
    checkpoints.push_back(to_json(checkpoint));
  }
  return restartable_state(start_, worker_step_, checkpoints.empty() ? "" : checkpoints.dump());
}

void RestartableDataset::check_state(const State& state,
                                     std::vector<std::string>& differences) const {
  if (state.integer("worker_step") != 0) {
    differences.push_back(
        fmt::format("worker_step: {}, expected 0: a worker object starts from an aggregated state",
                    state.integer("worker_step")));
  }
}

void RestartableDataset::apply_state(const State& state) {
  start_ = state.bytes("start");
  if (start_.empty()) {
    return;
  }
  const StateDict start = StateDict::parse(start_);
  const Strictness strictness = start.at("strict") ? Strictness::kStrict : Strictness::kLenient;
  object_->load_state_dict(object_->deaggregate_state_dict(start.at("state"), strictness),
                           strictness);
  for (std::string& warning : object_->warnings()) {
    warnings_->push_back(std::move(warning));
  }
}

}  // namespace

// --- RestartableDataLoader ---

namespace {

LoaderOptions loader_options(const RestartableOptions& options) {
  if (options.loader.worker_config.logical_shards) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("logical_shards is {}, but must not be set: there is one worker object "
                            "for each worker",
                            *options.loader.worker_config.logical_shards));
  }
  if (options.loader.checkpoint_every_batches) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("checkpoint_every_batches is {}, but must not be set: the schedule determines "
                    "when worker objects save",
                    *options.loader.checkpoint_every_batches));
  }
  if (options.keep_checkpoints < 1) {
    throw Error(ErrorCode::kInvalidArgument, "keep_checkpoints is 0, but must be at least 1");
  }
  LoaderOptions loader = options.loader;
  loader.checkpoint_every_batches = 1;  // cheap: most are empty
  return loader;
}

PipelineFactory pipeline(AnyWorkerFactory input, const WorkerRun& run,
                         std::shared_ptr<std::vector<std::string>> warnings) {
  return [input = std::move(input), run,
          warnings = std::move(warnings)](const PipelineContext& context) {
    return std::make_unique<RestartableDataset>(input(context), worker_identity(context), run,
                                                warnings);
  };
}

PipelineContext parent_context(const LoaderOptions& options, int worker, HeapBufferPool& memory) {
  return {.config = options.worker_config, .local_index = worker, .memory = memory};
}

// Throws Error (kMismatch) unless `checkpoints` has each worker of the job exactly once, at the
// same step. `local` is any worker of the job.
void check_all_workers(const std::vector<DataLoaderCheckpoint>& checkpoints,
                       const WorkerIdentity& local) {
  std::vector<std::string> differences;
  std::map<int, int> count;  // of each global worker id
  for (const DataLoaderCheckpoint& checkpoint : checkpoints) {
    const WorkerIdentity& worker = checkpoint.progress.worker;
    ++count[worker.global_worker_id()];
    if (worker.world_size != local.world_size ||
        worker.num_workers_per_rank != local.num_workers_per_rank) {
      differences.push_back(
          fmt::format("worker {}: from {} ranks with {} workers, expected {} with {}",
                      worker.global_worker_id(), worker.world_size, worker.num_workers_per_rank,
                      local.world_size, local.num_workers_per_rank));
    }
    if (checkpoint.progress.step != checkpoints.front().progress.step) {
      differences.push_back(fmt::format("worker {}: at step {}, expected {}",
                                        worker.global_worker_id(), checkpoint.progress.step,
                                        checkpoints.front().progress.step));
    }
  }
  for (int worker = 0; worker < local.total_workers(); ++worker) {
    if (count[worker] != 1) {
      differences.push_back(
          fmt::format("worker {}: {} checkpoints, expected 1", worker, count[worker]));
    }
    count.erase(worker);
  }
  for (const auto& [worker, checkpoints_of_it] : count) {
    differences.push_back(
        fmt::format("worker {}: there are only {}", worker, local.total_workers()));
  }
  if (!differences.empty()) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("these are not the checkpoints of all workers of the job at one step:"
                            "\n  {}",
                            fmt::join(differences, "\n  ")));
  }
}

}  // namespace

RestartableDataLoader::RestartableDataLoader(AnyWorkerFactory input, RestartableOptions options)
    : input_(std::move(input)),
      options_(std::move(options)),
      memory_(std::make_unique<HeapBufferPool>()),
      object_(input_(parent_context(options_.loader, 0, *memory_))),
      load_warnings_(std::make_shared<std::vector<std::string>>()),
      loader_(pipeline(input_, options_.run, load_warnings_), loader_options(options_)) {}

std::optional<Sample> RestartableDataLoader::next() {
  if (!pending_) {
    pending_ = loader_.next();
    if (!pending_) {
      return std::nullopt;
    }
    ++step_;
  }
  if (restartable() && options_.run.schedule.contains(step_)) {
    checkpoints_[step_] = capture();
    if (checkpoints_.size() > options_.keep_checkpoints) {
      checkpoints_.erase(checkpoints_.begin());
    }
  }
  return std::exchange(pending_, std::nullopt);
}

std::vector<DataLoaderCheckpoint> RestartableDataLoader::capture() {
  const SavableDataLoaderState position = loader_.save_state_rank();
  std::vector<DataLoaderCheckpoint> checkpoints;
  for (std::size_t worker = 0; worker < position.checkpoints.size(); ++worker) {
    const SavableDatasetCheckpoint& stream = position.checkpoints[worker];
    std::optional<DataLoaderCheckpoint> checkpoint;
    if (stream.index + stream.offset == 0) {
      checkpoint = checkpoint_at_start(static_cast<int>(worker), step_);
    } else if (stream.state && stream.offset == 0) {
      checkpoint = checkpoint_at(*stream.state, step_);
    }
    if (!checkpoint) {
      return {};
    }
    checkpoints.push_back(std::move(*checkpoint));
  }
  return checkpoints;
}

DataLoaderCheckpoint RestartableDataLoader::checkpoint_at_start(int worker, std::int64_t step) {
  const PipelineContext context = parent_context(options_.loader, worker, *memory_);
  const std::unique_ptr<AnyWorker> object = input_(context);
  if (loaded_) {
    object->load_state_dict(object->deaggregate_state_dict(loaded_->state, loaded_->strictness),
                            loaded_->strictness);
  }
  DataLoaderCheckpoint checkpoint{.progress = {.worker = worker_identity(context), .step = step}};
  const WorkerStateScope scope(checkpoint.progress);
  checkpoint.user_state_dict = object->state_dict();
  require_text(checkpoint);
  return checkpoint;
}

void RestartableDataLoader::require_restartable() const {
  if (!restartable()) {
    throw_not_restartable();
  }
}

std::vector<DataLoaderCheckpoint> RestartableDataLoader::checkpoints_now() {
  require_restartable();
  if (!options_.run.schedule.contains(step_)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("a state is available at the steps {} of the checkpoint schedule; this "
                            "is step {}",
                            options_.run.schedule.describe(), step_));
  }
  return *checkpoints(step_);
}

StateDict RestartableDataLoader::state_dict() {
  if (options_.loader.worker_config.world_size > 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the job has {} ranks: call state_dict(comm, "
                            "destination), on all of them",
                            options_.loader.worker_config.world_size));
  }
  SingleProcessComm comm;
  return *state_dict(comm, 0);
}

// What this rank sends to the destination: its checkpoints at this step, or why it has none.
RestartableDataLoader::RankReply RestartableDataLoader::reply() {
  try {
    StateDict json = StateDict::array();
    for (const DataLoaderCheckpoint& checkpoint : checkpoints_now()) {
      json.push_back(to_json(checkpoint));
    }
    return {.text = success(json.dump()), .failure = nullptr};
  } catch (...) {
    return {.text = failure(to_error(std::current_exception(), "state_dict()")),
            .failure = std::current_exception()};
  }
}

std::optional<StateDict> RestartableDataLoader::state_dict(Comm& comm, int destination) {
  require_restartable();
  if (step_ == 0 && loaded_) {
    return comm.rank() == destination ? std::optional(loaded_->state) : std::nullopt;
  }
  RankReply local = reply();
  const std::vector<std::string> replies = comm.gather(std::move(local.text), destination);
  if (local.failure) {
    std::rethrow_exception(local.failure);
  }
  if (comm.rank() != destination) {
    return std::nullopt;
  }
  if (aggregated_ && aggregated_->first == step_) {
    return aggregated_->second;
  }
  std::vector<DataLoaderCheckpoint> all;
  for (std::size_t rank = 0; rank < replies.size(); ++rank) {
    for (const StateDict& json : StateDict::parse(result_of(rank, replies[rank]))) {
      all.push_back(checkpoint_from_json(json));
    }
  }
  aggregated_ = {step_, aggregate(std::move(all))};
  return aggregated_->second;
}

void RestartableDataLoader::load_state_dict(const StateDict& state, Strictness strictness) {
  require_restartable();
  if (step_ > 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("a state can be loaded only before the first batch; {} were taken", step_));
  }
  load_warnings_->clear();
  SavableDataLoaderState position = loader_.save_state_rank();
  for (SavableDatasetCheckpoint& worker : position.checkpoints) {
    worker.state = start_from(state, strictness);
  }
  loader_.restore_state_rank(position);
  loaded_ = {state, strictness};
  checkpoints_.clear();
  aggregated_.reset();
  warnings_ = std::move(*load_warnings_);
  std::sort(warnings_.begin(), warnings_.end());
  warnings_.erase(std::unique(warnings_.begin(), warnings_.end()), warnings_.end());
}

std::optional<std::vector<DataLoaderCheckpoint>> RestartableDataLoader::checkpoints(
    std::int64_t step) {
  require_restartable();
  if (!options_.run.schedule.contains(step)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("step {} is not in the checkpoint schedule: {}", step,
                            options_.run.schedule.describe()));
  }
  if (step > step_) {
    return std::nullopt;
  }
  if (step == 0 && !checkpoints_.contains(0)) {
    const int workers = options_.loader.worker_config.workers_per_rank();
    std::vector<DataLoaderCheckpoint> start;
    start.reserve(static_cast<std::size_t>(workers));
    for (int worker = 0; worker < workers; ++worker) {
      start.push_back(checkpoint_at_start(worker, 0));
    }
    checkpoints_[0] = std::move(start);
  }
  const auto found = checkpoints_.find(step);
  if (found == checkpoints_.end()) {
    throw Error(
        ErrorCode::kNotFound,
        fmt::format("the checkpoints of step {} are no longer kept, only those of {} steps from "
                    "{} on (keep_checkpoints)",
                    step, checkpoints_.size(), checkpoints_.begin()->first));
  }
  if (found->second.empty()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("there is no state of step {}: the data of some worker of this rank "
                            "ended before that of the others, so workers did not save in turn; "
                            "let the run repeat, or give all workers the same number of batches",
                            step));
  }
  return found->second;
}

StateDict RestartableDataLoader::aggregate(std::vector<DataLoaderCheckpoint> checkpoints) {
  require_restartable();
  check_all_workers(checkpoints, worker_identity(parent_context(options_.loader, 0, *memory_)));
  std::sort(checkpoints.begin(), checkpoints.end(), [](const auto& a, const auto& b) {
    return a.progress.worker.global_worker_id() < b.progress.worker.global_worker_id();
  });
  std::vector<StateDict> states;
  states.reserve(checkpoints.size());
  for (DataLoaderCheckpoint& checkpoint : checkpoints) {
    states.push_back(std::move(checkpoint.user_state_dict));
  }
  return object_->aggregate_state_dict(states);
}

}  // namespace energon
