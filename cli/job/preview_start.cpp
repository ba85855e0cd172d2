#include "cli/job/preview_start.h"

#include <charconv>
#include <filesystem>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "cli/job/open_dataset.h"
#include "energon/read/jsonl_dataset.h"
#include "energon/read/webdataset.h"
#include "io/error.h"

namespace energon::cli {
namespace {

bool is_same(const SourceShard& a, const SourceShard& b) {
  const auto whole = [](const std::string& path) {
    return std::filesystem::absolute(path).lexically_normal();
  };
  return a.shard_name == b.shard_name && whole(a.dataset_path) == whole(b.dataset_path);
}

// Where `sample` is in `dataset`; nothing if it has no such sample.
std::optional<std::int64_t> index_of(const LeafDataset& dataset, const SampleSource& sample) {
  if (const auto* const lines = dynamic_cast<const JsonlDataset*>(&dataset)) {
    return is_same(*lines->source(), *sample.shard) ? std::optional(sample.index_in_shard)
                                                    : std::nullopt;
  }
  const auto* const tars = dynamic_cast<const Webdataset*>(&dataset);
  if (tars == nullptr) {
    return std::nullopt;
  }
  for (std::size_t shard = 0; shard < tars->shard_counts().size(); ++shard) {
    const auto number = static_cast<std::int64_t>(shard);
    if (is_same(*tars->source(number), *sample.shard)) {
      return tars->first_of_shard(number) + sample.index_in_shard;
    }
  }
  return std::nullopt;
}

bool is_in(const PipelineLeaf& leaf, std::int64_t index) {
  return !leaf.range || (index >= leaf.range->begin && index < leaf.range->end);
}

}  // namespace

std::optional<std::int64_t> position_in(const std::string& start) {
  std::int64_t position = 0;
  const auto [end, error] = std::from_chars(start.data(), start.data() + start.size(), position);
  const bool is_number =
      error == std::errc() && end == start.data() + start.size() && position >= 0;
  return is_number && std::to_string(position) == start ? std::optional(position) : std::nullopt;
}

std::vector<LeafPosition> find_positions(const std::string& path, const std::string& key,
                                         const DataOptions& options, const PipelineData& data) {
  const std::vector<FoundSample> found =
      look_up_samples(path, key, {.open = options.open, .split = options.split});
  std::vector<LeafPosition> positions;
  for (std::size_t leaf = 0; leaf < data.leaves.size(); ++leaf) {
    for (const FoundSample& sample : found) {
      const auto index = index_of(*data.leaves[leaf].dataset, source_of(sample.sample, 0));
      if (index && is_in(data.leaves[leaf], *index)) {
        positions.push_back({leaf, *index});
        break;
      }
    }
  }
  if (positions.empty()) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the sample '{}' is there, but only in a join, or outside of what the "
                            "metadataset takes; give --start a number",
                            printable(key)),
                {.path = path});
  }
  return positions;
}

}  // namespace energon::cli
