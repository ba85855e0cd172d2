#include "io/dataset/prepared_folder.h"

#include <filesystem>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/broken_shards.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/media_excludes.h"
#include "io/dataset/opening_steps.h"
#include "io/dataset/quarantined_samples.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_opening.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/dataset/summarized_shards.h"
#include "io/error.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// Sample counts by shard; the names are those of a DatasetInfo.
using ShardCounts = std::unordered_map<std::string_view, std::int64_t>;

ShardCounts counts_of(const DatasetInfo& info) {
  ShardCounts counts(info.shards.size());
  for (const ShardCount& shard : info.shards) {
    counts.emplace(shard.name, shard.sample_count);
  }
  return counts;
}

SplitConfig read_split(const std::string& path, const std::string& meta,
                       const OpenOptions& options) {
  try {
    return read_split_config(meta, options.split_config);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) {
      throw;
    }
    fail_unprepared(
        path, fmt::format(".nv-meta/{} is missing", options.split_config.value_or("split.yaml")));
  }
}

// Adds the shards `names` of the split part, which .info.json must list.
void add_shards(const std::vector<std::string>& names, const ShardCounts& counts,
                const std::string& meta, const OpenOptions& options, ShardSet& set) {
  for (const std::string& name : names) {
    check_shard_name(name, meta);
    if (!counts.contains(name)) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the split part '{}' names the shard '{}', which .info.json does not "
                              "list",
                              printable(options.split_part), printable(name)),
                  {.path = meta});
    }
    set.shards.push_back({.name = name});
  }
}

// What the split file and the options exclude.
struct Excludes {
  std::vector<std::string> entries;  // shards and samples
  std::vector<std::string> files;    // quarantine files
};

Excludes sort_excludes(const std::string& path, const std::vector<std::string>& split_entries,
                       const OpenOptions& options) {
  Excludes excludes{.entries = {}, .files = options.exclude_files};
  for (const std::string& entry : split_entries) {
    if (entry.ends_with(".jsonl")) {
      excludes.files.push_back((fs::path(path) / entry).string());
    } else {
      excludes.entries.push_back(entry);
    }
  }
  return excludes;
}

// Looks at each shard.
void open_each(const DatasetInfo& info, const ShardCounts& counts, const OpenOptions& options,
               ShardSet& set) {
  const std::optional<ShardRecords> records =
      ShardRecords::load(set.dataset_path + "/.nv-meta", info);
  ShardWarnings warnings(set);
  const auto open = [&](ShardFile& shard, std::size_t i) {
    const ShardRecord* const record = records ? records->find(shard.name) : nullptr;
    if (auto odd = open_shard(shard, counts.at(shard.name), set.dataset_path, record, options)) {
      warnings.of(i).push_back(std::move(*odd));
    }
  };
  open_shards(set, options, open, [&](const ShardFile& shard) { return counts.at(shard.name); });
  for (const ShardFile& shard : set.shards) {
    if (!shard.is_broken) {
      check_has_checksums(shard, records && records->has_checksums(), options);
    }
  }
  warnings.append_to(set.warnings);
}

}  // namespace

ShardSet open_prepared(const std::string& path, const OpenOptions& options) {
  const std::string meta = path + "/.nv-meta";
  const std::optional<std::string> text = read_info_text(meta);
  const auto summarized = text ? SummarizedShards::find(path, *text, options) : nullptr;
  const auto info = summarized ? std::optional(summarized->info()) : parse_info(text, meta);
  if (!info) {
    fail_unprepared(path, ".nv-meta/.info.json is missing");
  }
  const SplitConfig config = read_split(path, meta, options);
  const SelectedShards selected = select_shards(config, options.split_part, meta);
  const ShardCounts counts = counts_of(*info);
  ShardSet set{.dataset_path = path, .kind = "prepared"};
  add_shards(selected.names, counts, meta, options, set);
  Excludes excludes = sort_excludes(path, selected.exclude_entries, options);
  const QuarantinedSamples quarantined = take_quarantined(excludes.files, set);
  if (summarized) {
    summarized->open(set, options);
  } else {
    open_each(*info, counts, options, set);
  }
  check_not_empty(set);
  exclude_broken(set);
  exclude_by_index(quarantined, set);
  for (std::string& entry : quarantined.entries()) {
    excludes.entries.push_back(std::move(entry));
  }
  if (options.media_filter) {
    exclude_by_media(options, *info, meta + "/index.sqlite", set);
  }
  resolve_excludes(excludes.entries, *info, meta + "/index.sqlite", set);
  return set;
}

ShardFile open_prepared_shard(const std::string& folder, const DatasetInfo& info,
                              std::size_t position, const OpenOptions& options) {
  const ShardCount& listed = info.shards.at(position);
  check_shard_name(listed.name, folder);
  ShardFile shard{.name = listed.name};
  const std::optional<ShardRecords> records = ShardRecords::load(folder + "/.nv-meta", info);
  const ShardRecord* const record = records ? records->find(shard.name) : nullptr;
  open_shard(shard, listed.sample_count, folder, record, options);
  check_has_checksums(shard, records && records->has_checksums(), options);
  return shard;
}

}  // namespace energon
