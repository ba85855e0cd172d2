// A loader over worker objects of the user's that define their own state (restartable.h).
//
//   RestartableDataLoader loader(
//       [](const PipelineContext& context) { return MyWorker(worker_identity(context)); },
//       {.loader = {.worker_config = {.num_workers = 3}},
//        .run = {.schedule = CheckpointSchedule::every(100)}});
//   while (auto batch = loader.next()) {
//     if (loader.step() % 100 == 0) { save(loader.state_dict()); }
//   }
//
// States are taken at steps that are known beforehand: a worker saves when it has made its part of
// the batches of such a step, before it hands the last of them on, so nothing is asked of a worker
// that has run ahead. The terms are those of Cerebras' DataLoader; a rank is a system.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "energon/distributed/comm.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/protocols/checkpoint_schedule.h"
#include "energon/protocols/restartable.h"
#include "energon/protocols/restartable_dataset.h"

namespace energon {

struct RestartableOptions {
  /// Logical shards and checkpoint_every_batches must not be set: worker objects are one for each
  /// worker, and the schedule says when they save.
  LoaderOptions loader = {};
  WorkerRun run = {};
  /// Steps of the schedule whose checkpoints are kept, the newest ones.
  std::size_t keep_checkpoints = 64;
};

/// For one thread at a time. Errors of worker objects pass through with their code and text.
class RestartableDataLoader {
 public:
  /// Forks as SavableDataLoader does. Calls `input` once in the parent. Throws Error
  /// (kInvalidArgument).
  template <WorkerInput Input>
  explicit RestartableDataLoader(Input input, RestartableOptions options = {})
      : RestartableDataLoader(erase_type(std::move(input)), std::move(options)) {}
  RestartableDataLoader(AnyWorkerFactory input, RestartableOptions options);

  /// The next batch: of worker 0, 1, … in turn. Nothing at the end of an epoch, if the run does not
  /// repeat. Throws as SavableDataLoader::next(), and what an object's state_dict() throws, which
  /// loses no batch: the next call tries again.
  std::optional<Sample> next();

  /// Batches that next() gave in this run.
  std::int64_t step() const { return step_; }

  bool restartable() const { return object_->restartable(); }

  /// The aggregated state of a job of one rank: before the first batch, and at the steps of the
  /// schedule. What was loaded, if no batch was taken since. Throws Error: kUnsupported if the
  /// objects are not restartable; kInvalidArgument at other steps, with the schedule, and for a job
  /// of several ranks.
  StateDict state_dict();
  /// The same of a job of all ranks of `comm`, on rank `destination`; nothing elsewhere. All ranks
  /// call it at the same step. Throws what state_dict() throws on the rank where it failed and on
  /// `destination`, and Error of the Comm.
  std::optional<StateDict> state_dict(Comm& comm, int destination);

  /// Starts from an aggregated state, with `strictness` in deaggregate and load alike. All ranks
  /// load the same. Throws Error: kUnsupported if the objects are not restartable, kInvalidArgument
  /// after the first batch, and what the objects throw; then nothing has changed.
  void load_state_dict(const StateDict& state, Strictness strictness = Strictness::kStrict);

  /// What the objects had to say about the load: once each.
  const std::vector<std::string>& warnings() const { return warnings_; }

  /// What each worker of this rank saved at `step`, by local worker id; nothing while `step` is not
  /// reached. Throws Error: kUnsupported as state_dict(); kInvalidArgument, with the schedule, for
  /// a step that is not in it; kNotFound for one that is no longer kept; kUnsupported after workers
  /// came to the end of their data unevenly.
  std::optional<std::vector<DataLoaderCheckpoint>> checkpoints(std::int64_t step);

  /// One state from the checkpoints of all workers of the job, in any order. Throws Error
  /// (kMismatch) that lists workers that are missing or there twice, and other steps; and what the
  /// objects throw.
  StateDict aggregate(std::vector<DataLoaderCheckpoint> checkpoints);

 private:
  // Empty: workers are not all at their batches of this step.
  std::vector<DataLoaderCheckpoint> capture();
  DataLoaderCheckpoint checkpoint_at_start(int worker, std::int64_t step);
  void require_restartable() const;
  std::vector<DataLoaderCheckpoint> checkpoints_now();

  const AnyWorkerFactory input_;
  const RestartableOptions options_;
  const std::unique_ptr<HeapBufferPool> memory_;  // of objects in the parent
  const std::unique_ptr<AnyWorker> object_;       // aggregates
  const std::shared_ptr<std::vector<std::string>> load_warnings_;
  SavableDataLoader loader_;

  struct Loaded {
    StateDict state;
    Strictness strictness;
  };
  std::optional<Loaded> loaded_;
  std::vector<std::string> warnings_;
  std::optional<Sample> pending_;  // counted, but not returned: its checkpoint failed
  std::int64_t step_ = 0;
  std::map<std::int64_t, std::vector<DataLoaderCheckpoint>> kept_;  // by step
  std::optional<std::pair<std::int64_t, StateDict>> aggregated_;    // at a step
};

}  // namespace energon
