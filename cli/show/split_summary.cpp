#include "cli/show/split_summary.h"

#include <algorithm>
#include <unordered_map>

#include <fmt/format.h>

#include "cli/show/output.h"
#include "io/error.h"

namespace energon::cli {

std::int64_t total_samples(const DatasetInfo& info) {
  std::int64_t total = 0;
  for (const ShardCount& shard : info.shards) {
    total += shard.sample_count;
  }
  return total;
}

std::vector<PartSummary> summarize_parts(const DatasetInfo& info, const SplitConfig& split,
                                         const std::string& path) {
  std::unordered_map<std::string, std::int64_t> counts;
  for (const ShardCount& shard : info.shards) {
    counts.emplace(shard.name, shard.sample_count);
  }
  std::vector<PartSummary> summaries;
  for (const SplitConfig::Part& part : split.parts) {
    PartSummary summary{.name = part.name};
    if (!part.patterns.empty()) {
      const SelectedShards selected = select_shards(split, part.name, path);
      for (const std::string& shard : selected.names) {
        const auto found = counts.find(shard);
        summary.samples += found == counts.end() ? 0 : found->second;
      }
      summary.shards = static_cast<std::int64_t>(selected.names.size());
      for (const std::string& entry : selected.exclude_entries) {
        const bool is_here =
            std::any_of(selected.names.begin(), selected.names.end(),
                        [&](const std::string& shard) { return entry.starts_with(shard + "/"); });
        summary.excluded_samples += is_here ? 1 : 0;
      }
    }
    summaries.push_back(std::move(summary));
  }
  return summaries;
}

std::string describe_parts(const std::vector<PartSummary>& parts, const DatasetInfo& info) {
  const auto total = static_cast<double>(std::max<std::int64_t>(total_samples(info), 1));
  std::string text;
  for (const PartSummary& part : parts) {
    text += fmt::format("  {}: {:.3g}%, {} in {}", printable(part.name),
                        100 * static_cast<double>(part.samples) / total,
                        plural(part.samples, "sample"), plural(part.shards, "shard"));
    if (part.excluded_samples > 0) {
      text += fmt::format(" ({} excluded)", plural(part.excluded_samples, "sample"));
    }
    text += '\n';
  }
  return text;
}

}  // namespace energon::cli
