// What a loader measured about itself: who did how much, who waited for whom, and what was left
// out.
//
// Times are sums since the loader was made, over stops and restarts. Workers run side by side, so
// the sum over workers may exceed the time that passed.

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

/// One stage of one worker's pipeline. Stages that nobody times (wrappers/watch/measured.h) only
/// have `skipped` and `failed`.
struct StageStatistics {
  std::string name = {};
  std::uint64_t samples = 0;  ///< given out
  std::uint64_t bytes = 0;    ///< payload of those; only of stages that read
  std::chrono::nanoseconds busy{0};
  std::chrono::nanoseconds input_wait{0};  ///< in the stages before it
  std::uint64_t skipped = 0;
  std::uint64_t failed = 0;
};

/// One worker; without workers, the pipeline in the caller's process.
struct WorkerStatistics {
  std::uint64_t batches = 0;                  ///< made; some may not be delivered yet
  std::chrono::nanoseconds busy{0};           ///< making batches, without waiting for the consumer
  std::chrono::nanoseconds consumer_wait{0};  ///< for the trainer to take or to give back batches
  std::chrono::nanoseconds cpu{0};            ///< of the thread that makes batches
  /// Of the thread that makes batches: ready to run, but without a core. 0 where the kernel does
  /// not say it.
  std::chrono::nanoseconds cpu_wait{0};
  std::chrono::nanoseconds helper_cpu{0};  ///< of the thread that helps it to read
  std::int64_t queue_depth = 0;            ///< batches finished and not taken, right now
  std::vector<StageStatistics> stages = {};
};

/// The caller's side.
struct ConsumerStatistics {
  std::uint64_t batches = 0;  ///< delivered
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;                  ///< payload
  std::chrono::nanoseconds worker_wait{0};  ///< in next(), until the batch was there
  std::chrono::nanoseconds own_time{0};     ///< between two calls of next()
};

/// Samples of one shard that one stage could not use and left out.
struct FailureCount {
  std::string stage = {};
  std::string dataset_path = {};
  std::string shard_name = {};   ///< empty: not known
  std::uint64_t samples = 0;     ///< named by reports
  bool is_shard_broken = false;  ///< then all its samples are left out
};

/// What the speed of a loader depends on.
enum class Limit : std::uint8_t {
  kUnknown = 1,  ///< not enough data yet
  kStorage,      ///< reading, while the CPU idles
  kCpu,          ///< the CPU time of a stage
  kConsumer,     ///< the trainer takes batches more slowly than they are made
  kCpuShortage,  ///< workers are ready to run and get no core
};

std::string_view to_string(Limit limit);

struct Verdict {
  Limit limit = Limit::kUnknown;
  std::string stage = {};  ///< the one that takes longest, for kStorage and kCpu; may be unknown
  std::string text = {};   ///< one sentence, with the numbers that led to it
};

/// A value.
struct LoaderStatistics {
  int num_workers = 0;
  std::vector<WorkerStatistics> workers = {};
  ConsumerStatistics consumer = {};
  /// Of all that the rank delivered, before a restore too (docs/rescaling.md).
  Certificate certificate = {};
  std::vector<FailureCount> failures = {};  ///< by stage, dataset and shard
  /// The newest 1,000, oldest first, each with at most 100 of its samples.
  std::vector<FailureReport> newest_reports = {};

  /// What to change to make the loader faster.
  Verdict verdict() const;
};

/// With the verdict. Times are in seconds.
Config to_json(const LoaderStatistics& statistics);

/// Adds the numbers of a run to those of earlier runs; stages are matched by name. The queue is
/// that of `run`.
void add_run(WorkerStatistics& sum, const WorkerStatistics& run);

}  // namespace energon
