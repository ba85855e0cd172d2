// The loader of a training job: delivers the batches of one rank, and saves and restores its
// position exactly.
//
//   SavableDataLoader loader(train_pipeline({dataset}, {.batch_size = 64}),
//                            {.worker_config = {.num_workers = 2}});
//   while (auto batch = loader.next()) { … }                           // one epoch
//   write_loader_state("rank0.state", loader.save_state_rank());       // at any moment
//
// With workers, batches are made in forked processes and handed over in shared memory without a
// copy; a batch keeps its memory until its last value (or tensor) is gone, also after the loader.
// Names are Energon's.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/sample/sample.h"
#include "energon/stage/pipeline.h"
#include "energon/worker/batch_place.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"

namespace energon {

class RankStream;
class SampleRestorer;

/// For one thread at a time. With workers, in a forked child of the process that made it: calls
/// that deliver, save or count throw Error (kCancelled) and the destructor does nothing.
///
/// Signals that a whole job gets (SIGTERM, SIGHUP, SIGUSR1, …) do not end the workers, so that a
/// handler of the trainer can still save: docs/processes.md.
class SavableDataLoader {
 public:
  /// With workers, forks the fork server now: make the loader before the process has threads or
  /// touches a GPU; workers start at the first next(). Throws Error (kInvalidArgument,
  /// kResourceExhausted).
  explicit SavableDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options = {});
  /// Ends the workers: within 200 ms if they are idle, else they are killed.
  ~SavableDataLoader();
  SavableDataLoader(const SavableDataLoader&) = delete;
  SavableDataLoader& operator=(const SavableDataLoader&) = delete;

  /// The next batch; nothing at the end of the epoch. The call after that begins the next epoch.
  /// Throws Error: what a pipeline threw (kCorruptData, …), kWorkerDied, kTimeout,
  /// kResourceExhausted; then every further call throws the same until restore_state_rank(). The
  /// position stays that of the last batch and can be saved.
  std::optional<Sample> next();

  /// Which batch of the job next() gave last; nothing before the first one since construction or a
  /// restore.
  const std::optional<BatchPlace>& last_place() const;

  /// The position after the batches delivered so far. At any moment, also when a worker or the fork
  /// server has died and after an Error of next(); changes nothing and asks no worker. Throws Error
  /// (kCorruptData) if something wrote over the memory of a worker.
  SavableDataLoaderState save_state_rank();

  /// Continues from `state`. Before the first next(), after stop(), after an Error of next(), and
  /// without workers at any moment; `state` may be used again. Throws Error: kInvalidArgument while
  /// workers run, kMismatch with all differences if the state is of another loader or dataset; then
  /// nothing has changed.
  void restore_state_rank(const SavableDataLoaderState& state);

  /// Ends the workers and keeps the position; the next next() starts them again from there. If a
  /// worker had died, throws Error (kWorkerDied) once the rest is ended; the position is kept all
  /// the same. If that cannot be had, throws Error (kCorruptData), as each later next() does until
  /// restore_state_rank().
  void stop();

  /// Rebuilds the batch that any rank of this job delivered with `key`; the stream does not move.
  /// Reads in the caller's process.
  Sample restore_sample(const RestoreKey& key);

  /// Batches of one epoch of this rank; nothing if it never ends.
  std::optional<std::int64_t> size() const;

  /// Settings of loader and pipeline, as JSON. Equal configs deliver equal batches.
  Config config() const;

  /// As given to the constructor.
  const LoaderOptions& options() const;

  /// What limits the loader, who waits for whom, and what was left out: sums since the loader was
  /// made, over stop() and restore_state_rank(). At any moment, cheap.
  LoaderStatistics stats() const;

  /// Process ids of the running workers.
  std::vector<int> worker_pids() const;

 private:
  std::unique_ptr<RankStream> stream_;
  std::unique_ptr<SampleRestorer> restorer_;
};

}  // namespace energon
