// Which worker of a job something runs in, how far that worker is, and what it saved there.
//
// The terms are those of Cerebras' DataLoaderCheckpoint; a rank is a system of its workers.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "energon/stage/pipeline.h"

namespace energon {

/// What users save and load: JSON values, theirs to choose.
using StateDict = nlohmann::ordered_json;

/// A value.
struct WorkerIdentity {
  int local_worker_id = 0;       ///< within its rank
  int num_workers_per_rank = 1;  ///< at least 1: without workers it is the caller's process
  int rank = 0;
  int world_size = 1;

  int global_worker_id() const { return rank * num_workers_per_rank + local_worker_id; }
  int total_workers() const { return world_size * num_workers_per_rank; }
  /// Position in the order in which the batches of all workers are taken: at each step one of every
  /// rank, from its next worker.
  int turn() const { return local_worker_id * world_size + rank; }

  bool operator==(const WorkerIdentity&) const = default;
};

/// The worker that a pipeline is made for. Requires: logical shards are not set by the user.
WorkerIdentity worker_identity(const PipelineContext& context);

/// How far a worker is in this run.
struct WorkerProgress {
  WorkerIdentity worker;
  std::int64_t step = 0;              ///< batches of the rank
  std::int64_t worker_step = 0;       ///< of them, this worker's
  std::int64_t samples_streamed = 0;  ///< in those

  bool operator==(const WorkerProgress&) const = default;
};

/// The progress of the worker whose state_dict() is being called, in that thread and for that call
/// only; elsewhere throws Error (kInvalidArgument).
const WorkerProgress& worker_state();

/// Makes `progress` the worker_state() of this thread while it lives. Borrows it.
class WorkerStateScope {
 public:
  explicit WorkerStateScope(const WorkerProgress& progress);
  ~WorkerStateScope();
  WorkerStateScope(const WorkerStateScope&) = delete;
  WorkerStateScope& operator=(const WorkerStateScope&) = delete;
};

/// What a worker saved at a step of the schedule.
struct DataLoaderCheckpoint {
  WorkerProgress progress;
  StateDict user_state_dict = {};

  bool operator==(const DataLoaderCheckpoint&) const = default;
};

/// `json` as a text. Throws Error (kInvalidArgument) if it cannot be one: it has a string that is
/// not UTF-8, or is nested too deeply; `what` says what it is.
std::string to_text(const StateDict& json, std::string_view what);
/// The same check of a user's state; the Error names worker and step.
void require_text(const DataLoaderCheckpoint& checkpoint);

/// JSON form and back. from_json throws Error (kCorruptData).
StateDict to_json(const DataLoaderCheckpoint& checkpoint);
DataLoaderCheckpoint checkpoint_from_json(const StateDict& json);

}  // namespace energon
