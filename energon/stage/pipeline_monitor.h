// What a pipeline tells about itself while it runs: counters of its stages, and failures that its
// error policy let pass.
//
// The loader owns the monitor: in a worker the counters, and a note of what a function works on,
// lie in shared memory, where the parent reads them at any time, also after the worker's death;
// reports travel with the batches (energon/worker/statistics.h).

#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>

#include "energon/stage/failure.h"

namespace energon {

/// Written by the thread that drives the pipeline, read by any; all relaxed. Counts since the
/// pipeline was made.
struct StageCounters {
  std::atomic<std::uint64_t> samples{0};        ///< that the stage gave out
  std::atomic<std::uint64_t> bytes{0};          ///< payload of those; counted by reading stages
  std::atomic<std::uint64_t> busy_ns{0};        ///< in the stage itself
  std::atomic<std::uint64_t> input_wait_ns{0};  ///< in the stages before it
  std::atomic<std::uint64_t> skipped{0};        ///< samples that a function asked to leave out
  std::atomic<std::uint64_t> failed{0};         ///< samples that failed and were left out
};

/// For the thread that drives the pipeline.
class PipelineMonitor {
 public:
  virtual ~PipelineMonitor() = default;

  /// The counters of the stage `name`; the same ones for the same name. Valid as long as the
  /// monitor.
  virtual StageCounters& stage(std::string_view name) = 0;

  /// A failure that the policy let pass.
  virtual void report(const FailureReport& report) = 0;

  /// A function of the stage with these counters begins to work on `samples`, of which the keys and
  /// sources are looked at; and ends. For the message about a process that dies or hangs in it.
  virtual void begin_work(const StageCounters& /*stage*/, std::span<const Sample> /*samples*/) {}
  virtual void end_work() {}

  /// Samples left out so far, for whatever reason but a filter. After a batch in which this grew, a
  /// worker stores a checkpoint, so that what is passed over on restore never contains a drop.
  std::uint64_t drops() const { return drops_; }
  void note_drop() { ++drops_; }

 private:
  std::uint64_t drops_ = 0;
};

/// For pipelines that nobody watches: forgets what it is told.
PipelineMonitor& no_monitor();

}  // namespace energon
