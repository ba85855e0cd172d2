#include "energon/compat/worker_progress.h"

#include <climits>
#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
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
  return {.local_worker_id = context.config.worker_of(context.stream),
          .num_workers_per_rank = context.config.workers_per_rank(),
          .rank = context.config.rank,
          .world_size = context.config.world_size};
}

const WorkerProgress& worker_state() {
  if (current_progress == nullptr) {
    throw Error(ErrorCode::kInvalidArgument,
                "the state of the worker is known only inside of state_dict(), while a loader "
                "calls it");
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
                fmt::format("this is no checkpoint of a worker: {}", error.what()));
  }
}

}  // namespace energon
