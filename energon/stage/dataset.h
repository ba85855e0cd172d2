// Dataset: a stream of samples or batches, which a loader runs. A loader makes one for each logical
// shard (PipelineFactory) and gives it a PipelineContext; the stream reports to a PipelineMonitor.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "energon/order/worker_config.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/failure.h"
#include "energon/state/savable.h"

namespace energon {

/// next() has three outcomes: a sample, the end of the epoch (nullopt, repeated until
/// next_epoch()), or an Error.
class Dataset : public Savable {
 public:
  virtual std::optional<Sample> next() = 0;

  /// Starts the next epoch. Requires: next() returned the end.
  virtual void next_epoch() = 0;

  /// The number of samples in one epoch; nullopt if the epoch never ends or the number is not known
  /// in advance.
  virtual std::optional<std::int64_t> size() const = 0;

  /// Appends up to `count` samples to `samples`; fewer only at the end of the epoch. Yields the
  /// same samples as `count` calls of next(), but a reading stage may read them together. After an
  /// Error, the appended samples must not be used.
  virtual void next_many(std::int64_t count, std::vector<Sample>& samples);

  /// Skips up to `count` samples and returns the number skipped. Reads no data, unless a stage must
  /// see its samples to know what it yields (filters, sort pools, packing, groups).
  virtual std::int64_t skip(std::int64_t count) = 0;

  /// Whether skip() computes the items that it skips, so that a replay takes as long as the first
  /// run. A worker then stores its state more often (energon/worker/worker_checkpoints.h).
  virtual bool skip_makes_items() const { return true; }

  /// Skips up to `count` batches of `batch_size` samples each, regardless of the batch size of the
  /// pipeline. Returns the number skipped. Throws Error (kUnsupported) if the pipeline does not
  /// make batches of a fixed number of samples.
  virtual std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size);

  /// Rebuilds the sample that was emitted with `key`, without moving the stream. Throws Error
  /// (kInvalidArgument) if the key belongs to another pipeline or is out of range.
  virtual Sample restore_sample(const RestoreKey& key) = 0;

  /// Checks, as far as possible without reading, that this pipeline can emit an item with this key:
  /// the stages match and the samples exist. Throws Error (kInvalidArgument). The default accepts
  /// every key.
  virtual void check_key(const RestoreKey& /*key*/) const {}

 protected:
  /// Implements skip() for a stage whose items cannot be counted without computing them: computes
  /// and drops them.
  std::int64_t skip_by_running(std::int64_t count);
};

/// While it lives, pipelines of this thread skip items that a job delivered before its state. No
/// sample was left out when the job made them (PipelineMonitor::drops()), so none may be left out
/// now, even if it has been excluded since then.
class Replay {
 public:
  Replay();
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  static bool is_running();
};

// What a pipeline reports while it runs: counters of its stages, and failures that its error policy
// allowed it to skip.
//
// The loader owns the monitor. In a worker, the counters and a note of the samples that a function
// is working on are in shared memory: the parent can read them at any time, even after the worker's
// death. Reports are sent with the batches (energon/worker/statistics.h).

/// Written by the thread that drives the pipeline, read by any thread. All accesses are relaxed.
/// Counts start at the creation of the pipeline.
struct StageCounters {
  std::atomic<std::uint64_t> samples{0};        ///< emitted by the stage
  std::atomic<std::uint64_t> bytes{0};          ///< their payload; counted by reading stages only
  std::atomic<std::uint64_t> busy_ns{0};        ///< time in the stage itself
  std::atomic<std::uint64_t> input_wait_ns{0};  ///< time in the stages before it
  std::atomic<std::uint64_t> skipped{0};        ///< samples left out at a function's request
  std::atomic<std::uint64_t> failed{0};         ///< samples that failed and were left out
};

/// Used only by the thread that drives the pipeline, except no_monitor().
class PipelineMonitor {
 public:
  virtual ~PipelineMonitor() = default;

  /// Returns the counters of the stage `name`; the same object for the same name. Valid as long as
  /// the monitor.
  virtual StageCounters& stage(std::string_view name) = 0;

  /// Records a failure that the policy allowed the stage to skip.
  virtual void report(const FailureReport& report) = 0;

  /// Mark the start and the end of a call to a function of the stage whose counters are `stage`.
  /// Only the keys and sources of `samples` are used: for the error message if the process dies or
  /// hangs in the call. begin_work() may throw, to end the work from outside (is_interrupted()).
  virtual void begin_work(const StageCounters& /*stage*/, std::span<const Sample> /*samples*/) {}
  virtual void end_work() {}

  /// Signals that a replay makes progress, even if no function is called and no file is read.
  virtual void note_replayed() {}

  /// Whether begin_work() has interrupted the work. An exception that passes through the stages is
  /// then not a failure of a sample and does not change the pipeline.
  virtual bool is_interrupted() const { return false; }

  /// Number of times that samples were left out, for any reason except a filter. A worker stores a
  /// checkpoint after each batch in which this number grew, so that a restore never has to replay a
  /// dropped sample.
  std::uint64_t drops() const { return drops_.load(std::memory_order_relaxed); }
  void note_drop() { drops_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> drops_{0};  // no_monitor() is used by several threads
};

/// A monitor that discards everything. Shared by all threads and never destroyed, so a pipeline may
/// outlive the thread that made it.
PipelineMonitor& no_monitor();

class LeafReaders;

/// Readers without a helper thread; see energon/read/leaf_readers.h.
std::shared_ptr<LeafReaders> make_leaf_readers();

/// What a pipeline needs to know about its place in the job, and where it allocates.
struct PipelineContext {
  WorkerConfig config = {};
  int local_index = 0;      ///< index of the logical shard within the rank
  BufferAllocator& memory;  ///< for the bytes that it reads
  /// For values that functions create (CallContext::memory()). The consumer of the pipeline calls
  /// end_batch() after each batch.
  std::shared_ptr<BatchMemory> batch_memory = std::make_shared<BatchMemory>(memory);
  PipelineMonitor& monitor = no_monitor();
  /// Shared by all pipelines of a process, so that a worker with many logical shards keeps no more
  /// files open than one with a single logical shard.
  std::shared_ptr<LeafReaders> readers = make_leaf_readers();

  int logical_shard() const { return config.logical_shard(local_index); }
  std::uint32_t seed() const { return worker_seed(logical_shard(), config.seed_offset); }
};

/// Makes a pipeline at its start position. Called in each worker after the fork, and in the parent
/// for config(), sizes and restore_sample(). It must return the same pipeline each time, and open
/// files lazily or not at all.
using PipelineFactory = std::function<std::unique_ptr<Dataset>(const PipelineContext&)>;

/// Exit code of a worker that ended itself because a call of next() exceeded the time limit of the
/// watchdog (wrappers/watch/watchdog.h).
inline constexpr int kWatchdogExitCode = 75;

}  // namespace energon
