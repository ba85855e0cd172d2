// The loader of a training job: delivers the batches of one rank, and saves and restores its
// position exactly.
//
//   SavableDataLoader loader(train_pipeline({dataset}, {.batch_size = 64}),
//                            {.worker_config = {.num_workers = 2}});
//   while (auto batch = loader.next()) { … }                           // one epoch
//   write_loader_state("rank0.state", loader.save_state_rank());       // at any time
//
// With workers, batches are made in forked processes and handed over in shared memory without a
// copy. A batch keeps its memory until its last value (or tensor) is destroyed, even after the
// loader is gone. The names are Energon's.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/checkpoint/loader_state.h"
#include "energon/loader/batch_source.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/worker/loader_options.h"
#include "energon/worker/statistics.h"

namespace energon {

class RankLoader;
class SampleRestorer;

/// next(), restore_state_rank(), rewind(), stop() and restore_sample() are for one thread at a
/// time: one of them while another one runs, also from a function that next() has called, throws
/// Error (kInvalidArgument) and changes nothing. All other functions may be called at any time from
/// any thread; they neither end nor disturb a next() that runs, and see what was delivered before
/// it. If the process that made a loader with workers forks, then in the child the calls that
/// deliver, save, count or close throw Error (kCancelled), and the destructor does nothing. The
/// child's copy of a loader without workers can be used, provided that no other thread was in a
/// call of it during the fork.
///
/// Signals sent to a whole job (SIGTERM, SIGHUP, SIGUSR1, …) do not end the workers, so that the
/// trainer's signal handler can still save: docs/processes.md.
class SavableDataLoader final : public BatchSource {
 public:
  /// With workers, forks the fork server now, so make the loader before the process has threads or
  /// touches a GPU. Workers start at the first next(). Throws Error (kInvalidArgument,
  /// kResourceExhausted), and what options.fork_hooks throw.
  explicit SavableDataLoader(PipelineFactory make_pipeline, const LoaderOptions& options = {});
  /// Ends the workers. Those that have not ended after 200 ms are killed.
  ~SavableDataLoader() override;

  /// The next batch, with its place in the job (Sample::place); nothing at the end of the epoch.
  /// The call after that begins the next epoch.
  /// Throws Error: what a pipeline threw (kCorruptData, …), kWorkerDied, kTimeout,
  /// kResourceExhausted. After that every further call throws the same Error until
  /// restore_state_rank(). The position stays after the last batch and can be saved.
  /// What options.wait_check throws is no such failure: it leaves the call as it is, the position
  /// is that before the call, and the next call goes on, with the same batches as without it.
  std::optional<Sample> next() override;

  /// The position after the batches delivered so far. May be called at any time and from any
  /// thread, also while next() runs or after a worker or the fork server has died or next() has
  /// thrown. Changes nothing and asks no worker. Throws Error (kCorruptData) if the memory of a
  /// worker was overwritten.
  SavableDataLoaderState save_state_rank() override;

  /// The position after the first `batch_index` batches of this rank (the batch_index of a saved
  /// state), before the end of an epoch that may have followed was reported. A loader restored from
  /// it delivers again what this one delivered since. Reaches back
  /// LoaderOptions::checkpoint_history batches, as far as the kept states allow, but not before the
  /// last restore of another state. stop(), a dead worker and rewind() keep the history. Throws
  /// Error: kInvalidArgument if `batch_index` is not reached, with the earliest one that is, or was
  /// not delivered; kCorruptData if the memory of a worker was overwritten.
  SavableDataLoaderState state_at(std::int64_t batch_index);
  /// The lowest batch index that state_at() and rewind() can reach.
  std::int64_t earliest_state() const;
  /// Goes back to state_at(batch_index), also after next() has thrown; what lies before it stays in
  /// reach. Ends the workers; the next call of next() starts them again. Throws as state_at(), and
  /// Error (kCancelled) after close(); then nothing has changed.
  void rewind(std::int64_t batch_index);

  /// Continues from `state`. With workers, call it before the first next(), after stop() or after
  /// next() has thrown; without workers, at any time. `state` may be used again. Throws Error:
  /// kInvalidArgument while workers run, kMismatch with all differences if the state belongs to
  /// another loader or dataset, or to an adapter over one; then nothing has changed.
  void restore_state_rank(const SavableDataLoaderState& state) override;

  /// Ends the workers and keeps the position; the next call of next() starts them again from there.
  /// If a worker had died before all of its epoch was delivered, throws Error (kWorkerDied) after
  /// ending the others; the position is still kept. If the position cannot be read, throws Error
  /// (kCorruptData, kResourceExhausted), as does each later next() until restore_state_rank().
  void stop() override;

  /// Ends the workers and the fork server for good and keeps the position: what saves and counts
  /// still works, but next() and restore_state_rank() throw Error (kCancelled) from now on. Any
  /// thread may call it. A next() that waits for a worker in another thread stops waiting within
  /// 100 ms, ends the workers, and throws that Error; without workers, next() throws it before it
  /// calls the next function of the pipeline. Returns when that call has ended; at once if it is
  /// called by a function that next() has called. Never throws, but in a forked child (kCancelled).
  void close();

  /// Rebuilds the batch that any rank of this job delivered with `key`, without its place. Reads in
  /// the caller's process and does not move the loader's position.
  Sample restore_sample(const RestoreKey& key) override;

  /// Number of batches in one epoch of this rank; nothing if the epoch never ends.
  std::optional<std::int64_t> size() const override;
  /// Exact after a restore, a rescale and with another micro batch size, too. Samples that are left
  /// out because they are damaged are counted as if they were there.
  std::optional<std::int64_t> batches_left() const override;
  /// Number of epochs whose end next() has reported, in this run and those that it continues.
  std::int64_t epoch() const override;
  Config state_config() override;
  /// The configuration without the rank; null for a job of one rank.
  Config common_settings() const override;

  /// Settings of the loader and the pipeline, as JSON. Loaders with equal configs deliver equal
  /// batches.
  Config config() const;

  /// The options that the loader was made with.
  const LoaderOptions& options() const;

  /// What limits the loader, which side waits, and what was left out. Totals since the loader was
  /// made; stop() and restore_state_rank() do not reset them. May be called at any time; cheap.
  LoaderStatistics stats() const;

  /// Process ids of the running workers.
  std::vector<int> worker_pids() const;

 private:
  std::unique_ptr<RankLoader> loader_;
  std::unique_ptr<SampleRestorer> restorer_;
};

}  // namespace energon
