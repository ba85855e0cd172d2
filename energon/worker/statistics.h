// Statistics of a loader: the work and the waiting times of each part, and the samples left out.
//
// Times are totals since the loader was created, across stops and restarts. Workers run in
// parallel, so the sum over workers may exceed the elapsed time.

#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "energon/checkpoint/certificate.h"
#include "energon/stage/failure.h"
#include "energon/state/savable.h"

namespace energon {

/// One stage of one worker's pipeline. Stages without timing (wrappers/watch/timed_stage.h) have
/// only `skipped` and `failed`.
struct StageStatistics {
  std::string name = {};
  std::uint64_t samples = 0;  ///< emitted by the stage
  std::uint64_t bytes = 0;    ///< their payload; only for stages that read
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds input_wait{0};  ///< time in the stages before it
  std::uint64_t skipped = 0;
  std::uint64_t failed = 0;
};

/// One worker or, without workers, the pipeline in the caller's process.
struct WorkerStatistics {
  std::uint64_t batches = 0;                  ///< made; some may not be delivered yet
  std::chrono::nanoseconds busy{0};           ///< making batches, without waiting for the consumer
  std::chrono::nanoseconds consumer_wait{0};  ///< waiting for the trainer to take or return batches
  std::chrono::nanoseconds cpu{0};            ///< CPU time of the thread that makes batches
  /// Time in which the thread that makes batches was ready to run but had no core. 0 if the kernel
  /// does not report it.
  std::chrono::nanoseconds cpu_wait{0};
  std::chrono::nanoseconds helper_cpu{0};  ///< CPU time of the thread that helps it read
  std::int64_t queue_depth = 0;            ///< batches currently finished but not taken
  /// Worker processes with this id that had died when the loader ended or replaced them. A death
  /// after the whole epoch was delivered is reported only here.
  std::uint64_t deaths = 0;
  std::vector<StageStatistics> stages = {};
};

/// The caller's side of the loader.
struct ConsumerStatistics {
  std::uint64_t batches = 0;  ///< delivered
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;                  ///< payload
  std::chrono::nanoseconds worker_wait{0};  ///< in next()
  std::chrono::nanoseconds own_time{0};     ///< between calls of next()
  /// Epochs that had no batch because all of their samples failed and were left out.
  std::uint64_t lost_epochs = 0;
};

/// Samples of one shard that one stage left out because they failed.
struct FailureCount {
  std::string stage = {};
  std::string dataset_path = {};
  std::string shard_name = {};   ///< empty if not known
  std::uint64_t samples = 0;     ///< number of samples named in reports
  bool is_shard_broken = false;  ///< if true, all samples of the shard are left out
};

/// What limits the speed of a loader.
enum class Bottleneck : std::uint8_t {
  kUnknown = 1,  ///< not enough data yet
  kStorage,      ///< reading, while the CPU is idle
  kCpu,          ///< the CPU time of a stage
  kConsumer,     ///< the trainer takes batches more slowly than they are made
  kCpuShortage,  ///< workers are ready to run but get no core
};

std::string_view to_string(Bottleneck bottleneck);

struct Verdict {
  Bottleneck limit = Bottleneck::kUnknown;
  std::string stage = {};  ///< for kStorage and kCpu, the slowest stage, if known
  std::string text = {};   ///< one sentence, with the numbers that led to it
};

/// A value type.
struct LoaderStatistics {
  int num_workers = 0;
  std::vector<WorkerStatistics> workers = {};
  ConsumerStatistics consumer = {};
  std::int64_t batch_index = 0;     ///< batches delivered by the rank, including before a restore
  std::int64_t earliest_state = 0;  ///< the lowest batch index that state_at() and rewind() reach
  /// Covers everything that the rank delivered, including before a restore (docs/rescaling.md).
  Certificate certificate = {};
  std::vector<FailureCount> failures = {};  ///< by stage, dataset and shard
  /// The newest 1,000 reports, oldest first, each with at most 100 of its samples.
  std::vector<FailureReport> newest_reports = {};

  /// Determines what limits the loader.
  Verdict verdict() const;
};

/// Includes the verdict. Times are in seconds.
Config to_json(const LoaderStatistics& statistics);

/// Adds the numbers of `run` to those of earlier runs in `sum`. Stages are matched by name. The
/// queue depth is taken from `run`.
void add_run(WorkerStatistics& sum, const WorkerStatistics& run);

}  // namespace energon
