#include "cli/show/state_diff.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace energon::cli {
namespace {

Config describe(const SavedState& saved) {
  const auto* job = std::get_if<SavableJobState>(&saved);
  return job != nullptr ? describe_job_state(*job)
                        : describe_loader_state(std::get<SavableDataLoaderState>(saved));
}

// The configurations of the leaves, wherever the stage that reads them stands.
const Config* find_leaves(const Config& node) {
  if (!node.is_structured()) {
    return nullptr;
  }
  if (node.is_object() && node.contains("leaves")) {
    return &node.at("leaves");
  }
  for (const auto& child : node) {
    if (const Config* found = find_leaves(child)) {
      return found;
    }
  }
  return nullptr;
}

}  // namespace

std::vector<std::string> state_differences(const SavedState& first, const SavedState& second) {
  std::vector<std::string> differences;
  if (first.index() != second.index()) {
    differences.emplace_back(first.index() == 0 ? "the first is of a rank, the second of a job"
                                                : "the first is of a job, the second of a rank");
    return differences;
  }
  compare_configs(describe(first), describe(second), "state", differences);
  return differences;
}

std::vector<std::string> data_differences(const Config& config, const PipelineData& data) {
  const Config* const saved = find_leaves(config);
  Config current = Config::array();
  for (const PipelineLeaf& leaf : data.leaves) {
    current.push_back(leaf.dataset->config());
  }
  std::vector<std::string> differences;
  compare_configs(saved != nullptr ? *saved : Config::array(), current, "data", differences);
  return differences;
}

}  // namespace energon::cli
