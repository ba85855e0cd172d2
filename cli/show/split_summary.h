// Counts the shards and samples in each part of a prepared dataset, for prepare and info.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/dataset/dataset_info.h"
#include "io/dataset/split_config.h"

namespace energon::cli {

struct PartSummary {
  std::string name;
  std::int64_t shards = 0;
  std::int64_t samples = 0;  ///< single excluded samples are still counted
  std::int64_t excluded_samples = 0;
};

/// In the order of the split file. A part without shards has zeros. `path` is named in errors.
/// Throws Error as select_shards().
std::vector<PartSummary> summarize_parts(const DatasetInfo& info, const SplitConfig& split,
                                         const std::string& path);

/// One line per part: "  train: 80%, 800 samples in 8 shards". Shares are of all samples of `info`.
std::string describe_parts(const std::vector<PartSummary>& parts, const DatasetInfo& info);

std::int64_t total_samples(const DatasetInfo& info);

}  // namespace energon::cli
