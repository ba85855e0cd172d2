// What a bench run measured, and how it is shown.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/worker/statistics.h"

namespace energon::cli {

/// The figures of one process, at the end of the run.
struct ProcessFigures {
  std::string name;  ///< "parent", "worker 0"
  int pid = 0;
  double cpu_seconds = 0;  ///< in the measured time
  std::optional<std::uint64_t> pss_bytes;
};

/// The figures of the measured batches, without warm-up.
struct Throughput {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::uint64_t payload_bytes = 0;
  double seconds = 0;
  double first_batch_seconds = 0;       ///< from creating the loader to its first batch
  std::vector<double> latency_seconds;  ///< of each next()
  std::vector<ProcessFigures> processes;
  LoaderStatistics loader;  ///< since its creation, warm-up included
};

/// The value below which the fraction `quantile` of `values` lies; 0 if there are none. Reorders
/// `values`.
double quantile(std::vector<double>& values, double quantile);

std::string to_text(Throughput result);
nlohmann::ordered_json to_json(Throughput result);

}  // namespace energon::cli
