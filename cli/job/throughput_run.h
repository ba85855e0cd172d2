// Measures how fast the loader delivers, as energon bench does.
//
// One loader runs all the time. A warm-up, which is not counted, and then the repetitions take its
// batches one after the other, without a pause, as a trainer does that takes no time but (if told
// to) for reading every byte. So the loader is never far ahead when a repetition begins.

#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "cli/job/loader_flags.h"
#include "cli/show/progress_line.h"
#include "cli/show/throughput.h"
#include "energon/loader/savable_data_loader.h"

namespace energon::cli {

/// A repetition ends with whichever comes first: this many seconds, batches, or the epochs of the
/// loader's flags. At least one of the three is set.
struct MeasuringFlags {
  std::optional<double> seconds = std::nullopt;
  std::optional<std::int64_t> limit = std::nullopt;
  std::int64_t repetitions = 5;
  /// Absent: as long as a repetition. With epochs, it lasts to the end of one in any case.
  std::optional<std::int64_t> warmup_batches = std::nullopt;
  bool is_touched = true;
  bool is_progress_shown = true;
};

/// Not thread-safe.
class ThroughputRun {
 public:
  /// Starts the loader. Both arguments must outlive the run. Throws Error, UsageError.
  ThroughputRun(const LoaderFlags& loader, const MeasuringFlags& measuring);

  /// Ends early if a signal arrives: the result then has the complete repetitions, or the begun one
  /// if none is complete, or nothing if the warm-up was not over. Throws Error. Call it once.
  Throughput run();

 private:
  using Clock = std::chrono::steady_clock;

  // What ends a warm-up or a repetition.
  struct Bounds {
    std::optional<double> seconds;
    std::optional<std::int64_t> batches;
    std::optional<std::int64_t> epochs;
  };

  void warm_up();
  Repetition measure(const Bounds& bounds);
  bool is_over(const Bounds& bounds, const Repetition& so_far) const;
  void take(Repetition& to);
  void end_epoch();
  void show_progress();
  std::optional<std::int64_t> expected_batches() const;

  std::map<int, double> cpu_of_all() const;
  void add_process(const std::string& name, int pid, const std::map<int, double>& cpu_before);

  const LoaderFlags& loader_flags_;
  const MeasuringFlags& flags_;
  const Bounds bounds_;  // of a repetition
  ProgressLine progress_;
  const PipelineFactory pipeline_;
  const Clock::time_point made_at_;
  SavableDataLoader loader_;
  const std::optional<std::int64_t> expected_batches_;

  Clock::time_point begin_;        // of the warm-up or repetition
  std::int64_t epochs_ended_ = 0;  // in it
  std::vector<double> latency_seconds_;
  std::int64_t taken_ = 0;  // batches ever
  std::int64_t samples_taken_ = 0;
  std::int64_t taken_in_epoch_ = 0;
  Throughput result_;
};

}  // namespace energon::cli
