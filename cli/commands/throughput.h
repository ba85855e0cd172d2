// Measures how fast the loader delivers, for energon bench, and shows and writes the result
// (docs/formats/bench_result.md).

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/loader_flags.h"
#include "cli/output.h"
#include "energon/loader/savable_data_loader.h"
#include "energon/worker/statistics.h"

namespace energon::cli {

// --- Spread ---

/// The spread of a figure over the repetitions. Quartiles are interpolated; the middle half of the
/// values is between the first and the third.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
  double first_quartile = 0;
  double third_quartile = 0;
};

/// Requires: `values` is not empty.
Spread spread_of(std::vector<double> values);

/// True if the ranges from min to max touch.
bool overlap(const Spread& first, const Spread& second);

// --- Results ---

inline constexpr std::int64_t kThroughputVersion = 1;

/// The figures of one process, at the end of the run.
struct ProcessFigures {
  std::string name;  ///< "parent", "worker 0"
  int pid = 0;
  double cpu_seconds = 0;  ///< in the measured time
  std::optional<std::uint64_t> pss_bytes;
};

/// One measurement of several. All measurements of a run use the same running loader.
struct Repetition {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::uint64_t payload_bytes = 0;
  double seconds = 0;
  double latency_p50_seconds = 0;  ///< of next()
  double latency_p99_seconds = 0;

  double samples_per_second() const;
  double megabytes_per_second() const;
};

/// The figures of a run, without the warm-up unless noted.
struct Throughput {
  std::vector<Repetition> repetitions;  ///< at least one if anything was measured
  std::int64_t warmup_batches = 0;
  bool is_touched = true;          ///< every payload byte of the repetitions was read
  std::uint64_t touched_sum = 0;   ///< sum of the payload's 64-bit words
  double first_batch_seconds = 0;  ///< from creating the loader to its first batch
  std::vector<ProcessFigures> processes;
  LoaderStatistics loader;  ///< since its creation, warm-up included
};

/// One figure of each repetition, such as &Repetition::seconds. Requires: at least one repetition.
template <class Figure>
Spread spread_of(const std::vector<Repetition>& repetitions, const Figure& figure) {
  std::vector<double> values;
  values.reserve(repetitions.size());
  for (const Repetition& repetition : repetitions) {
    values.push_back(std::invoke(figure, repetition));
  }
  return spread_of(std::move(values));
}

std::string to_text(const Throughput& result);
/// `settings` and `machine` describe the run.
nlohmann::ordered_json to_json(const Throughput& result, const nlohmann::ordered_json& settings,
                               const nlohmann::ordered_json& machine);

// --- Measuring ---

/// A repetition ends with whichever comes first: this many seconds, batches, or the epochs of the
/// loader's flags. At least one of the three is set.
struct MeasuringFlags {
  std::optional<double> seconds = std::nullopt;
  std::optional<std::int64_t> limit = std::nullopt;
  std::int64_t repetitions = 5;
  /// Unset means as long as a repetition. With epochs, the warm-up always lasts to the end of one.
  std::optional<std::int64_t> warmup_batches = std::nullopt;
  bool is_touched = true;
  bool is_progress_shown = true;
};

/// One loader runs all the time. An uncounted warm-up and then the repetitions take its batches
/// without a pause, like a trainer that spends no time except, if requested, on reading every byte.
/// So the loader is never far ahead when a repetition starts. Not thread-safe.
class ThroughputRun {
 public:
  /// Starts the loader. Both arguments must outlive the run. Throws Error, UsageError.
  ThroughputRun(const LoaderFlags& loader, const MeasuringFlags& measuring);

  /// Ends early if a signal arrives: the result then has the complete repetitions; if there are
  /// none, the unfinished one; and none at all if the warm-up was not over. Throws Error. Call it
  /// once.
  Throughput run();

 private:
  using Clock = std::chrono::steady_clock;

  // The end of a warm-up or a repetition.
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
  std::int64_t epochs_ended_ = 0;  // since begin_
  std::vector<double> latency_seconds_;
  std::int64_t taken_ = 0;  // batches since the loader started
  std::int64_t samples_taken_ = 0;
  std::int64_t taken_in_epoch_ = 0;
  Throughput result_;
};

}  // namespace energon::cli
