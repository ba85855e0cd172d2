// The loader of a training job: delivers the batches of one rank, and saves and restores its
// position exactly.
//
//   SavableDataLoader loader(train_pipeline({dataset}, {.batch_size = 64}),
//                            {.worker_config = {.num_workers = 2}});
//   while (auto batch = loader.next()) { … }                           // one epoch
//   write_loader_state("rank0.state", loader.save_state_rank());       // at any time
//
// With workers, batches are made in forked processes and passed in shared memory without a copy. A
// batch keeps its memory until its last value (or tensor) is destroyed, even after the loader is
// gone. The names are Energon's.

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
/// time. Calling one of them while another one runs, also from a function within next(), throws
/// Error (kInvalidArgument) and has no effect. All other functions may be called at any time from
/// any thread; they neither end nor disturb a running next(), and see what was delivered before it.
/// If the process that made a loader with workers forks, then in the child the calls that deliver,
/// save, count or close throw Error (kCancelled), and the destructor does nothing. The child's copy
/// of a loader without workers can be used, provided that no other thread was in a call of it
/// during the fork.
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

  /// The next batch, with its place in the job (Sample::place); nullopt at the end of the epoch.
  /// The call after that begins the next epoch. Throws Error: what a pipeline threw (kCorruptData,
  /// …), kWorkerDied, kTimeout, kResourceExhausted. After that every further call throws the same
  /// Error until restore_state_rank(). The position stays after the last batch and can be saved. An
  /// exception of options.wait_check is not such a failure: it is passed through, the position is
  /// unchanged, and the next call continues with the same batches as without the exception.
  std::optional<Sample> next() override;

  /// The position after the batches delivered so far. May be called at any time and from any
  /// thread, also while next() runs or after a worker or the fork server has died or next() has
  /// thrown. Has no side effects and does not involve the workers. Throws Error (kCorruptData) if
  /// the memory of a worker was overwritten.
  SavableDataLoaderState save_state_rank() override;

  /// The position after the first `batch_index` batches of this rank (the batch_index of a saved
  /// state), before reporting an end of the epoch that may have followed. A loader restored from it
  /// delivers again what this one delivered since. Reaches back LoaderOptions::checkpoint_history
  /// batches, as far as the kept states allow, but not before the last restore of another state.
  /// stop(), a dead worker and rewind() keep the history. Throws Error: kInvalidArgument if
  /// `batch_index` was not delivered or is out of reach, with the earliest one in reach;
  /// kCorruptData if the memory of a worker was overwritten.
  SavableDataLoaderState state_at(std::int64_t batch_index);
  /// The lowest batch index that state_at() and rewind() can reach.
  std::int64_t earliest_state() const;
  /// Goes back to state_at(batch_index), also after next() has thrown; earlier positions stay in
  /// reach. Ends the workers; the next next() starts them again. Throws like state_at(), and Error
  /// (kCancelled) after close(); then changes nothing.
  void rewind(std::int64_t batch_index);

  /// Continues from `state`. With workers, call this before the first next(), after stop() or after
  /// next() has thrown; without workers, at any time. `state` may be used again. Throws Error:
  /// kInvalidArgument while workers run, kMismatch with all differences if the state belongs to
  /// another loader or dataset, or to an adapter over one; then changes nothing.
  void restore_state_rank(const SavableDataLoaderState& state) override;

  /// Ends the workers and keeps the position; the next next() starts them again from there. If a
  /// worker had died before its whole epoch was delivered, throws Error (kWorkerDied) after ending
  /// the others; the position is still kept. If the position cannot be read, throws Error
  /// (kCorruptData, kResourceExhausted), as does each later next() until restore_state_rank().
  void stop() override;

  /// Ends the workers and the fork server permanently and keeps the position: saving and counting
  /// still work, but next() and restore_state_rank() throw Error (kCancelled) from now on. Any
  /// thread may call close(). A next() that waits for a worker in another thread stops waiting
  /// within 100 ms, ends the workers, and throws that Error; without workers, next() throws it
  /// before calling the next function of the pipeline. Returns when that next() has ended, or
  /// immediately if called by a function within next(). Throws only in a forked child (kCancelled).
  void close();

  /// Rebuilds the batch that any rank of this job delivered with `key`, without its place. Reads in
  /// the caller's process and does not move the loader's position.
  Sample restore_sample(const RestoreKey& key) override;

  /// Number of batches in one epoch of this rank; nullopt if the epoch never ends.
  std::optional<std::int64_t> size() const override;
  /// Also exact after a restore, a rescale, and with another micro batch size. Samples that are
  /// left out because they are damaged are counted.
  std::optional<std::int64_t> batches_left() const override;
  /// Number of epochs whose end next() has reported, in this run and the runs that it continues.
  std::int64_t epoch() const override;
  Config state_config() override;
  /// The configuration without the rank; null for a job of one rank.
  Config common_settings() const override;

  /// Settings of the loader and the pipeline, as JSON. Loaders with equal configs deliver equal
  /// batches.
  Config config() const;

  /// The options of the loader.
  const LoaderOptions& options() const;

  /// What limits the loader, which side waits, and what was left out. Totals since the creation of
  /// the loader; stop() and restore_state_rank() do not reset them. May be called at any time;
  /// cheap.
  LoaderStatistics stats() const;

  /// Process ids of the running workers.
  std::vector<int> worker_pids() const;

 private:
  std::unique_ptr<RankLoader> loader_;
  std::unique_ptr<SampleRestorer> restorer_;
};

}  // namespace energon
