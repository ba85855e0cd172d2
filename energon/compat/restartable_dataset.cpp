#include "energon/compat/restartable_dataset.h"

#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

State restartable_state(std::string start, std::int64_t worker_step, std::string checkpoints) {
  return {"Restartable",
          {{"start", std::move(start)},
           {"worker_step", worker_step},
           {"checkpoints", std::move(checkpoints)}},
          {}};
}

}  // namespace

State start_from(const StateDict& aggregated, Strictness strictness) {
  const bool is_strict = strictness == Strictness::kStrict;
  return restartable_state(fmt::format(R"({{"strict":{},"state":{}}})", is_strict,
                                       to_text(aggregated, "the state to load")),
                           0, "");
}

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
        fmt::format("batch {} of this worker has {} samples, the others have {}: while states are "
                    "saved only the last batch may be smaller; drop what fills no batch",
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
                  fmt::format("epoch {} of the data of this worker gave not one batch", epoch_));
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
              "a worker object of the user's cannot rebuild a batch by its key");
}

State RestartableDataset::save_state() const {
  // What workers have before their first batch is asked for in the parent.
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

}  // namespace energon
