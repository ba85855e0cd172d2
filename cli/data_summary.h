// Describes data for users: the datasets of a metadataset with shares and lengths, the parts of a
// prepared dataset.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/dataset/dataset_info.h"
#include "io/dataset/split_config.h"
#include "io/recipe/recipe.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon::cli {

// --- Metadatasets ---

/// The tree of the datasets of a metadataset: one line per node, indented by depth, each ended by a
/// newline. `data` are the opened leaves of `recipe`. A node's share is its part of the samples
/// drawn: by weight in a blend, otherwise by samples times repetitions.
std::string describe_recipe(const Recipe& recipe, const PipelineData& data);

/// "/data/birds [train]", "/data/rows.jsonl", "join of 2 datasets in /data/m.yaml".
std::string name_of(const LeafReference& leaf);

// --- Prepared datasets ---

/// The shards and samples in a part of a prepared dataset.
struct PartSummary {
  std::string name;
  std::int64_t shards = 0;
  std::int64_t samples = 0;  ///< single excluded samples are still counted
  std::int64_t excluded_samples = 0;
};

/// In the order of the split file. A part without shards has zeros. Errors name `path`. Throws
/// Error as select_shards().
std::vector<PartSummary> summarize_parts(const DatasetInfo& info, const SplitConfig& split,
                                         const std::string& path);

/// One line per part: "  train: 80%, 800 samples in 8 shards". A share is relative to all samples
/// of `info`.
std::string describe_parts(const std::vector<PartSummary>& parts, const DatasetInfo& info);

std::int64_t total_samples(const DatasetInfo& info);

}  // namespace energon::cli
