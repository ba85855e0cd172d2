// A loader over the user's worker objects, which define their own state (restartable.h).
//
//   RestartableDataLoader loader(
//       [](const PipelineContext& context) { return MyWorker(worker_identity(context)); },
//       {.loader = {.worker_config = {.num_workers = 3}},
//        .run = {.schedule = CheckpointSchedule::every(100)}});
//   while (auto batch = loader.next()) {
//     if (loader.step() % 100 == 0) { save(loader.state_dict()); }
//   }
//
// States are taken at steps known in advance. A worker saves when it has made its share of the
// batches of such a step, before it delivers the last of them, so a request never reaches a worker
// that has run ahead. The terms are those of Cerebras' DataLoader; a rank is what Cerebras calls a
// system.

#pragma once

#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"
#include "protocols/cerebras/restartable.h"
#include "protocols/cerebras/worker_checkpoint.h"

namespace energon {

/// Options for how a worker object runs.
struct WorkerRun {
  CheckpointSchedule schedule = {};
  /// Start again at the end of each epoch, so that the stream never ends.
  bool repeat = true;
  /// Number of samples in each batch; only the last batch of the stream may differ. Unset means
  /// the size of the first batch.
  std::optional<std::int64_t> batch_size = std::nullopt;
};

struct RestartableOptions {
  /// Logical shards and checkpoint_every_batches must not be set: there is one worker object for
  /// each worker, and the schedule determines when it saves.
  LoaderOptions loader = {};
  WorkerRun run = {};
  /// Number of steps whose checkpoints are kept, the newest ones; at least 1.
  std::size_t keep_checkpoints = 64;
};

/// For one thread at a time. Errors of worker objects pass through with their code and text.
class RestartableDataLoader {
 public:
  /// Forks like SavableDataLoader. Calls `input` once in the parent. Throws Error
  /// (kInvalidArgument).
  template <WorkerInput Input>
  explicit RestartableDataLoader(Input input, RestartableOptions options = {})
      : RestartableDataLoader(erase_type(std::move(input)), std::move(options)) {}
  RestartableDataLoader(AnyWorkerFactory input, RestartableOptions options);

  /// The next batch, from worker 0, 1, … in turn; nullopt at the end of an epoch, if the run does
  /// not repeat. Throws like SavableDataLoader::next(), and what an object's state_dict() throws;
  /// no batch is lost, because the next call tries again.
  std::optional<Sample> next();

  /// Number of batches that next() has made in this run.
  std::int64_t step() const { return step_; }

  bool restartable() const { return object_->restartable(); }

  /// The aggregated state of a job of one rank, before the first batch and at the steps of the
  /// schedule. If no batch was taken since a load, it is the loaded state. Throws Error:
  /// kUnsupported if the objects are not restartable; kInvalidArgument at other steps, with the
  /// schedule, and for a job of several ranks.
  StateDict state_dict();
  /// The same for a job of all ranks in `comm`: returns the state on rank `destination` and nullopt
  /// on other ranks. All ranks call it at the same step. Throws what state_dict() throws, on the
  /// rank where it failed and on `destination`, and Error of the Comm.
  std::optional<StateDict> state_dict(Comm& comm, int destination);

  /// Starts from an aggregated state. `strictness` applies to both deaggregate_state_dict() and
  /// load_state_dict() of the objects. All ranks load the same state. Throws Error: kUnsupported if
  /// the objects are not restartable, kInvalidArgument after the first batch, and what the objects
  /// throw; then nothing has changed.
  void load_state_dict(const StateDict& state, Strictness strictness = Strictness::kStrict);

  /// Warnings of the objects about the load, each listed once.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// What each worker of this rank saved at `step`, by local worker id; nullopt if `step` is not
  /// reached yet. Throws Error: kUnsupported like state_dict(), or if workers reached the end of
  /// their data at different steps; kInvalidArgument, with the schedule, for a step not in it;
  /// kNotFound for a step no longer kept.
  std::optional<std::vector<DataLoaderCheckpoint>> checkpoints(std::int64_t step);

  /// Combines the checkpoints of all workers of the job, in any order, into one state. Throws Error
  /// (kMismatch) listing missing and duplicate workers, other layouts and other steps; and what the
  /// objects throw.
  StateDict aggregate(std::vector<DataLoaderCheckpoint> checkpoints);

 private:
  // A reply for the gathering of states, and what this rank throws after it.
  struct RankReply {
    std::string text;
    std::exception_ptr failure;
  };
  RankReply reply();

  // Empty if not all workers are at their batches of this step.
  std::vector<DataLoaderCheckpoint> capture();
  DataLoaderCheckpoint checkpoint_at_start(int worker, std::int64_t step);
  void require_restartable() const;
  std::vector<DataLoaderCheckpoint> checkpoints_now();

  const AnyWorkerFactory input_;
  const RestartableOptions options_;
  const std::unique_ptr<HeapBufferPool> memory_;  // for objects in the parent
  const std::unique_ptr<AnyWorker> object_;       // in the parent; aggregates
  const std::shared_ptr<std::vector<std::string>> load_warnings_;
  SavableDataLoader loader_;

  struct Loaded {
    StateDict state;
    Strictness strictness;
  };
  std::optional<Loaded> loaded_;
  std::vector<std::string> warnings_;
  std::optional<Sample> pending_;  // counted but not returned: its checkpoint failed
  std::int64_t step_ = 0;
  std::map<std::int64_t, std::vector<DataLoaderCheckpoint>> checkpoints_;  // by step
  std::optional<std::pair<std::int64_t, StateDict>> aggregated_;           // with its step
};

}  // namespace energon
