#include "cli/data_summary.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/open_dataset.h"
#include "cli/output.h"
#include "io/error.h"

namespace energon::cli {

// --- Metadatasets ---

namespace {

std::int64_t samples_of(const PipelineLeaf& leaf) {
  const SampleRange range = range_of(leaf);
  return range.end - range.begin;
}

// Samples of one epoch over all ranks and workers, before rounding to shards.
std::int64_t repeated_samples(const PipelineLeaf& leaf) {
  return static_cast<std::int64_t>(
      std::floor(static_cast<double>(samples_of(leaf)) * leaf.repetitions));
}

class Tree {
 public:
  Tree(const Recipe& recipe, const PipelineData& data) : recipe_(recipe), data_(data) {
    double sum = 0;
    for (const PipelineLeaf& leaf : data.leaves) {
      shares_.push_back(recipe.mixing == Mixing::kWeighted
                            ? leaf.weight
                            : static_cast<double>(repeated_samples(leaf)));
      sum += shares_.back();
    }
    for (double& share : shares_) {
      share /= sum > 0 ? sum : 1;
    }
  }

  std::string text() {
    add(recipe_.root, 1);
    return std::move(text_);
  }

 private:
  // The share of all leaves below a node.
  double share_of(const RecipeNode& node) const {
    double sum = node.leaf ? shares_[*node.leaf] : 0;
    for (const RecipeNode& child : node.children) {
      sum += share_of(child);
    }
    return sum;
  }

  void add(const RecipeNode& node, int depth) {
    const auto out = std::back_inserter(text_);
    fmt::format_to(out, "{:{}}{:5.1f} %  ", "", depth * 2, share_of(node) * 100);
    switch (node.kind) {
      case RecipeNode::Kind::kLeaf:
        add_leaf(*node.leaf);
        break;
      case RecipeNode::Kind::kMetadataset:
        fmt::format_to(out, "metadataset {}", printable(node.label));
        break;
      case RecipeNode::Kind::kBlend:
        fmt::format_to(out, "blend by weight");
        break;
      case RecipeNode::Kind::kBlendEpochized:
        fmt::format_to(out, "blend by repetitions");
        break;
    }
    if (node.factor) {
      fmt::format_to(out, ", {} {}", recipe_.mixing == Mixing::kWeighted ? "weight" : "repetitions",
                     *node.factor);
    }
    text_ += '\n';
    for (const RecipeNode& child : node.children) {
      add(child, depth + 1);
    }
  }

  void add_leaf(std::size_t index) {
    const auto out = std::back_inserter(text_);
    const LeafReference& reference = recipe_.leaves[index];
    const PipelineLeaf& leaf = data_.leaves[index];
    fmt::format_to(out, "{}, {}", name_of(reference), plural(samples_of(leaf), "sample"));
    if (leaf.range) {
      fmt::format_to(out, " (from {} to {} of {})", with_separators(leaf.range->begin),
                     with_separators(leaf.range->end),
                     with_separators(leaf.dataset->sample_count()));
    }
    if (recipe_.mixing == Mixing::kEpochized) {
      fmt::format_to(out, ", {} an epoch", with_separators(repeated_samples(leaf)));
    }
    if (!reference.subflavors->empty()) {
      fmt::format_to(out, ", {}", printable(reference.subflavors->dump()));
    }
    for (const JoinColumn& column : reference.columns) {
      fmt::format_to(out, "; {}{} [{}], nonmatch: {}",
                     column.name.empty() ? "" : printable(column.name) + ": ",
                     printable(column.path), printable(column.split_part),
                     to_string(column.nonmatch));
    }
  }

  const Recipe& recipe_;
  const PipelineData& data_;
  std::vector<double> shares_;  // by leaf; they sum to 1
  std::string text_;
};

}  // namespace

std::string name_of(const LeafReference& leaf) {
  switch (leaf.kind) {
    case LeafReference::Kind::kWebdataset:
      return fmt::format("{} [{}]", printable(leaf.path), printable(leaf.split_part));
    case LeafReference::Kind::kJsonl:
      return printable(leaf.path);
    case LeafReference::Kind::kJoin:
      return fmt::format("join of {} datasets in {}", leaf.columns.size(), printable(leaf.path));
  }
  return "unknown";
}

std::string describe_recipe(const Recipe& recipe, const PipelineData& data) {
  return Tree(recipe, data).text();
}

// --- Prepared datasets ---

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
