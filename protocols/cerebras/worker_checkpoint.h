// The identity of a worker in a job, its progress, its checkpoints, and the schedule for saving.
//
// The terms are those of Cerebras' DataLoaderCheckpoint; a rank is what Cerebras calls a system.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/stage/dataset.h"

namespace energon {

/// The state that users save and load: any JSON value.
using StateDict = nlohmann::ordered_json;

/// A value type.
struct WorkerIdentity {
  int local_worker_id = 0;       ///< within its rank
  int num_workers_per_rank = 1;  ///< at least 1; without workers, 1: the caller's process
  int rank = 0;
  int world_size = 1;

  int global_worker_id() const { return rank * num_workers_per_rank + local_worker_id; }
  int total_workers() const { return world_size * num_workers_per_rank; }
  /// Position in the order in which batches are taken from all workers: at each step one batch from
  /// every rank, from the next worker of that rank.
  int turn() const { return local_worker_id * world_size + rank; }

  bool operator==(const WorkerIdentity&) const = default;
};

/// The worker that a pipeline is made for. Requires: logical shards are not set by the user.
WorkerIdentity worker_identity(const PipelineContext& context);

/// The progress of a worker in this run.
struct WorkerProgress {
  WorkerIdentity worker;
  std::int64_t step = 0;              ///< number of batches of the rank
  std::int64_t worker_step = 0;       ///< number of these batches from this worker
  std::int64_t samples_streamed = 0;  ///< number of samples in the batches of this worker

  bool operator==(const WorkerProgress&) const = default;
};

/// The progress of the worker whose state_dict() is being called. Valid only in that thread and
/// during that call; elsewhere throws Error (kInvalidArgument).
const WorkerProgress& worker_state();

/// Makes `progress` the worker_state() of this thread for the lifetime of this object. Borrows
/// `progress`.
class WorkerStateScope {
 public:
  explicit WorkerStateScope(const WorkerProgress& progress);
  ~WorkerStateScope();
  WorkerStateScope(const WorkerStateScope&) = delete;
  WorkerStateScope& operator=(const WorkerStateScope&) = delete;
};

/// The state of a worker at a step of the schedule.
struct DataLoaderCheckpoint {
  WorkerProgress progress;
  StateDict user_state_dict = {};

  bool operator==(const DataLoaderCheckpoint&) const = default;
};

/// `json` as text. Throws Error (kInvalidArgument) if that is impossible because a string is not
/// UTF-8 or the nesting is too deep. `what` names the value in messages.
std::string to_text(const StateDict& json, std::string_view what);
/// The same check for a user's state; the Error names worker and step.
void require_text(const DataLoaderCheckpoint& checkpoint);

/// Convert to JSON and back. checkpoint_from_json() throws Error (kCorruptData).
StateDict to_json(const DataLoaderCheckpoint& checkpoint);
DataLoaderCheckpoint checkpoint_from_json(const StateDict& json);

/// The number of the first `step` batches of a rank from worker `local_worker_id`. Workers take
/// turns.
std::int64_t worker_step(std::int64_t step, int local_worker_id, int num_workers);

/// The steps of a run at which the workers save their states: a set that always contains 0, the
/// start. A value type.
class CheckpointSchedule {
 public:
  /// Only the start.
  CheckpointSchedule() = default;
  /// `steps` may be in any order. Throws Error (kInvalidArgument) for a negative step.
  explicit CheckpointSchedule(std::vector<std::int64_t> steps);
  /// Every `interval` steps, and `last_step` if set. Throws Error (kInvalidArgument) unless the
  /// interval is at least 1 and the last step at least 0.
  static CheckpointSchedule every(std::int64_t interval,
                                  std::optional<std::int64_t> last_step = std::nullopt);

  bool contains(std::int64_t step) const;
  /// True if there is a step besides the start.
  bool saves() const { return interval_ || steps_.size() > 1; }

  /// The steps of the schedule at which worker `local_worker_id` of `num_workers` has made
  /// `worker_step` batches, ascending.
  std::vector<std::int64_t> steps_at(std::int64_t worker_step, int local_worker_id,
                                     int num_workers) const;

  /// "0, 5, 10", or "0 and every 5".
  std::string describe() const;

 private:
  std::vector<std::int64_t> steps_ = {0};  // ascending
  std::optional<std::int64_t> interval_;
  std::optional<std::int64_t> last_step_;
};

}  // namespace energon
