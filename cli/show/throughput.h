// What a bench run measured, and how it is shown.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "energon/worker/statistics.h"

namespace energon::cli {

/// One process of the run, at its end.
struct ProcessFigures {
  std::string name;  ///< "parent", "worker 0"
  int pid = 0;
  double cpu_seconds = 0;  ///< in the measured time
  std::optional<std::uint64_t> pss_bytes;
};

/// Of the measured batches, warm-up not included.
struct Throughput {
  std::int64_t batches = 0;
  std::int64_t samples = 0;
  std::uint64_t payload_bytes = 0;
  double seconds = 0;
  double first_batch_seconds = 0;       ///< from making the loader to its first batch
  std::vector<double> latency_seconds;  ///< of each next()
  std::vector<ProcessFigures> processes;
  LoaderStatistics loader;  ///< since it was made, warm-up included
};

/// The value below which a share `quantile` of `values` lies. Reorders `values`; 0 if there are
/// none.
double quantile(std::vector<double>& values, double quantile);

std::string to_text(Throughput result);
nlohmann::ordered_json to_json(Throughput result);

}  // namespace energon::cli
