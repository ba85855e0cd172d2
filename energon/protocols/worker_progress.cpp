#include "energon/protocols/worker_progress.h"

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

thread_local const WorkerProgress* current_progress = nullptr;

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
    return {.progress = {.worker = {.local_worker_id = json.at("local_worker_id"),
                                    .num_workers_per_rank = json.at("num_workers_per_rank"),
                                    .rank = json.at("rank"),
                                    .world_size = json.at("world_size")},
                         .step = json.at("step"),
                         .worker_step = json.at("worker_step"),
                         .samples_streamed = json.at("samples_streamed")},
            .user_state_dict = json.at("user_state_dict")};
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("this is no checkpoint of a worker: {}", error.what()));
  }
}

}  // namespace energon
