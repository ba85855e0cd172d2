#include "protocols/cerebras/worker_checkpoint.h"

#include <algorithm>
#include <climits>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {

// --- Workers and their checkpoints ---

namespace {

// Deeper values would need too much stack to be written or copied.
constexpr std::size_t kMaxDepth = 1000;

thread_local const WorkerProgress* current_progress = nullptr;

bool is_too_deep(const StateDict& json) {
  // Level by level, so that no depth needs stack.
  std::vector<const StateDict*> level = {&json};
  for (std::size_t depth = 0; !level.empty(); ++depth) {
    if (depth > kMaxDepth) {
      return true;
    }
    std::vector<const StateDict*> below;
    for (const StateDict* value : level) {
      if (value->is_structured()) {
        for (const StateDict& element : *value) {
          below.push_back(&element);
        }
      }
    }
    level = std::move(below);
  }
  return false;
}

int int_in(const StateDict& json, const char* name, int least) {
  const StateDict& value = json.at(name);
  if (!value.is_number_integer() || value < least || value > INT_MAX) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("'{}' of a worker's checkpoint is {}, expected a number from {} on",
                            name, value.is_number() ? value.dump() : value.type_name(), least));
  }
  return value.get<int>();
}

std::int64_t count_of(const StateDict& json, const char* name) {
  const StateDict& value = json.at(name);
  if (!value.is_number_integer() || value < 0 || value > INT64_MAX) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("'{}' of a worker's checkpoint is {}, expected a number from 0 on",
                            name, value.is_number() ? value.dump() : value.type_name()));
  }
  return value.get<std::int64_t>();
}

}  // namespace

WorkerIdentity worker_identity(const PipelineContext& context) {
  return {.local_worker_id = context.config.worker_of(context.local_index),
          .num_workers_per_rank = context.config.workers_per_rank(),
          .rank = context.config.rank,
          .world_size = context.config.world_size};
}

const WorkerProgress& worker_state() {
  if (current_progress == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "the state of the worker is only available within state_dict(), while a loader "
                "calls that function");
  }
  return *current_progress;
}

WorkerStateScope::WorkerStateScope(const WorkerProgress& progress) { current_progress = &progress; }
WorkerStateScope::~WorkerStateScope() { current_progress = nullptr; }

std::string to_text(const StateDict& json, std::string_view what) {
  if (is_too_deep(json)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is nested deeper than {} levels", what, kMaxDepth));
  }
  try {
    return json.dump();
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot be written as JSON: {}", what, printable(error.what())));
  }
}

void require_text(const DataLoaderCheckpoint& checkpoint) {
  try {
    to_text(checkpoint.user_state_dict,
            fmt::format("the state_dict() of step {}", checkpoint.progress.step));
  } catch (Error& error) {
    error.with({.worker = checkpoint.progress.worker.local_worker_id});
    throw;
  }
}

StateDict to_json(const DataLoaderCheckpoint& checkpoint) {
  const WorkerProgress& progress = checkpoint.progress;
  return {{"local_worker_id", progress.worker.local_worker_id},
          {"num_workers_per_rank", progress.worker.num_workers_per_rank},
          {"rank", progress.worker.rank},
          {"world_size", progress.worker.world_size},
          {"step", progress.step},
          {"worker_step", progress.worker_step},
          {"samples_streamed", progress.samples_streamed},
          {"user_state_dict", checkpoint.user_state_dict}};
}

DataLoaderCheckpoint checkpoint_from_json(const StateDict& json) {
  try {
    return {.progress = {.worker = {.local_worker_id = int_in(json, "local_worker_id", 0),
                                    .num_workers_per_rank = int_in(json, "num_workers_per_rank", 1),
                                    .rank = int_in(json, "rank", 0),
                                    .world_size = int_in(json, "world_size", 1)},
                         .step = count_of(json, "step"),
                         .worker_step = count_of(json, "worker_step"),
                         .samples_streamed = count_of(json, "samples_streamed")},
            .user_state_dict = json.at("user_state_dict")};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not a checkpoint of a worker: {}", error.what()));
  }
}

// --- CheckpointSchedule ---

std::int64_t worker_step(std::int64_t step, int local_worker_id, int num_workers) {
  return step / num_workers + (local_worker_id < step % num_workers ? 1 : 0);
}

CheckpointSchedule::CheckpointSchedule(std::vector<std::int64_t> steps) : steps_(std::move(steps)) {
  steps_.push_back(0);
  std::sort(steps_.begin(), steps_.end());
  steps_.erase(std::unique(steps_.begin(), steps_.end()), steps_.end());
  if (steps_.front() < 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("step {} of the checkpoint schedule is negative", steps_.front()));
  }
}

CheckpointSchedule CheckpointSchedule::every(std::int64_t interval,
                                             std::optional<std::int64_t> last_step) {
  if (interval < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the checkpoint interval is {}, but must be at least 1", interval));
  }
  if (last_step && *last_step < 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the last step of the schedule is {}, but must be at least 0", *last_step));
  }
  CheckpointSchedule schedule;
  schedule.interval_ = interval;
  schedule.last_step_ = last_step;
  return schedule;
}

bool CheckpointSchedule::contains(std::int64_t step) const {
  if (interval_) {
    const bool is_in_run = step >= 0 && (!last_step_ || step <= *last_step_);
    return is_in_run && (step % *interval_ == 0 || step == last_step_);
  }
  return std::binary_search(steps_.begin(), steps_.end(), step);
}

std::vector<std::int64_t> CheckpointSchedule::steps_at(std::int64_t worker_step,
                                                       int local_worker_id, int num_workers) const {
  const std::int64_t last = worker_step * num_workers + local_worker_id;
  const std::int64_t first = std::max<std::int64_t>(last - num_workers + 1, 0);
  std::vector<std::int64_t> steps;
  for (std::int64_t step = first; step <= last; ++step) {
    if (contains(step)) {
      steps.push_back(step);
    }
  }
  return steps;
}

std::string CheckpointSchedule::describe() const {
  if (!interval_) {
    return fmt::format("{}", fmt::join(steps_, ", "));
  }
  return last_step_
             ? fmt::format("0, every {} up to {}, and {}", *interval_, *last_step_, *last_step_)
             : fmt::format("0 and every {}", *interval_);
}

}  // namespace energon
