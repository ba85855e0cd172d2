// Wraps a user's worker object as a Dataset, so that the loader runs it and keeps what it saves.
//
// The state of this stage is what the protocol needs: before the first batch, the aggregated state
// to start from; later, what the object saved at steps of the schedule. Only the state before the
// first batch can be restored.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/compat/checkpoint_schedule.h"
#include "energon/compat/restartable.h"
#include "energon/stage/dataset.h"

namespace energon {

/// Options for how a worker object runs.
struct WorkerRun {
  CheckpointSchedule schedule = {};
  /// Start again at the end of each epoch, so that the stream never ends.
  bool repeat = true;
  /// Number of samples in each batch; only the last batch of the stream may differ. Absent: the
  /// size of the first batch.
  std::optional<std::int64_t> batch_size = std::nullopt;
};

/// Makes the state of a stage that has not run yet and starts from `aggregated`.
State start_from(const StateDict& aggregated, Strictness strictness);

/// What a worker saved at `step`; nothing if `state` has no such step.
std::optional<DataLoaderCheckpoint> checkpoint_at(const State& state, std::int64_t step);

/// Not thread-safe.
class RestartableDataset final : public Dataset {
 public:
  /// Appends warnings of a load to `warnings`.
  RestartableDataset(std::unique_ptr<AnyWorker> object, const WorkerIdentity& worker, WorkerRun run,
                     std::shared_ptr<std::vector<std::string>> warnings);

  /// A batch without a restore key gets one with the number of the worker's batch. Throws what the
  /// object throws; Error: kCorruptData if an epoch of a repeating run has no batch;
  /// kInvalidArgument if the schedule saves states and any batch but the last has another size.
  std::optional<Sample> next() override;
  void next_epoch() override {}
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  [[noreturn]] Sample restore_sample(const RestoreKey& key) override;
  /// Calls the object's state_dict() for each step of the schedule at which this worker stands.
  State save_state() const override;
  Config config() const override { return {{"type", "Restartable"}, {"repeat", run_.repeat}}; }

 protected:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  /// Calls the object's deaggregate_state_dict() and load_state_dict(). Throws what the object
  /// throws.
  void apply_state(const State& state) override;

 private:
  void check_size(const Sample& batch);

  const std::unique_ptr<AnyWorker> object_;
  const WorkerIdentity worker_;
  const WorkerRun run_;
  const std::shared_ptr<std::vector<std::string>> warnings_;

  std::string start_;             // aggregated state and strictness, as JSON; empty: none
  std::int64_t worker_step_ = 0;  // number of batches made
  std::int64_t samples_ = 0;      // number of samples in them
  std::int64_t epoch_ = 0;        // number of epochs that ended
  bool epoch_has_batch_ = false;
  std::optional<std::int64_t> batch_size_;
  std::optional<std::int64_t> other_size_;  // of the newest batch, if not batch_size_
};

}  // namespace energon
