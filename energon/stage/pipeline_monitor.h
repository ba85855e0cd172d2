// What a pipeline reports while it runs: counters of its stages, and failures that its error policy
// allowed to be skipped.
//
// The loader owns the monitor. In a worker, the counters and a note of the samples that a function
// is working on are in shared memory: the parent can read them at any time, even after the worker's
// death. Reports are sent with the batches (energon/worker/statistics.h).

#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "energon/stage/failure.h"

namespace energon {

/// Written by the thread that drives the pipeline, read by any thread. All accesses are relaxed.
/// Counts start when the pipeline is made.
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

  /// Records a failure that the policy allowed to be skipped.
  virtual void report(const FailureReport& report) = 0;

  /// Mark the begin and the end of a call to a function of the stage whose counters are `stage`.
  /// Only the keys and sources of `samples` are used: for the error message if the process dies or
  /// hangs in the call. begin_work() may throw, to end the work from outside (is_interrupted()).
  virtual void begin_work(const StageCounters& /*stage*/, std::span<const Sample> /*samples*/) {}
  virtual void end_work() {}

  /// Shows that a replay goes on, even if no function is called and no file is read.
  virtual void note_replayed() {}

  /// Whether begin_work() has ended the work: what passes through the stages now is no failure of
  /// a sample, and leaves the pipeline as it is.
  virtual bool is_interrupted() const { return false; }

  /// Counts events in which samples were left out, for any reason except a filter. A worker stores
  /// a checkpoint after each batch in which this number grew, so that a restore never has to skip
  /// over a dropped sample.
  std::uint64_t drops() const { return drops_.load(std::memory_order_relaxed); }
  void note_drop() { drops_.fetch_add(1, std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> drops_{0};  // no_monitor() is used by several threads
};

/// A monitor that discards everything, for pipelines that are not monitored. All threads share it,
/// and it is there until the process ends, so a pipeline may outlive the thread that made it.
PipelineMonitor& no_monitor();

}  // namespace energon
