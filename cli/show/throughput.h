// What a bench run measured, and how it is shown and written (docs/formats/bench_result.md).

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include "cli/show/spread.h"
#include "energon/worker/statistics.h"

namespace energon::cli {

inline constexpr std::int64_t kThroughputVersion = 1;

/// The figures of one process, at the end of the run.
struct ProcessFigures {
  std::string name;  ///< "parent", "worker 0"
  int pid = 0;
  double cpu_seconds = 0;  ///< in the measured time
  std::optional<std::uint64_t> pss_bytes;
};

/// One measurement of several; all of one run come from the same running loader.
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

/// The figures of a run. The warm-up counts only in what says so.
struct Throughput {
  std::vector<Repetition> repetitions;  ///< at least one if anything was measured
  std::int64_t warmup_batches = 0;
  bool is_touched = true;          ///< every payload byte of the repetitions was read
  std::uint64_t touched_sum = 0;   ///< of its 64-bit words
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
/// `settings` and `machine` are what the result is of.
nlohmann::ordered_json to_json(const Throughput& result, const nlohmann::ordered_json& settings,
                               const nlohmann::ordered_json& machine);

}  // namespace energon::cli
