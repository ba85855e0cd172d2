#include "io/lint/lint_files.h"

#include <filesystem>
#include <unordered_set>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/dataset_info.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/split_config.h"
#include "io/file.h"
#include "io/lint/lint_summary.h"
#include "io/recipe/dataset_yaml.h"

namespace energon {
namespace {

// The split file `name` may name only shards of .info.json.
void check_split(const LintedDataset& dataset, const std::string& meta,
                 const std::optional<std::string>& name, LintReport& report) {
  const std::string place = name ? printable(*name) + ": " : "";
  const SplitConfig config = read_split_config(meta, name);
  const std::unordered_set<std::string> known(dataset.shards.begin(), dataset.shards.end());
  for (const SplitConfig::Part& part : config.parts) {
    if (part.patterns.empty()) {
      report.warnings.push_back(
          fmt::format("{}split part '{}' is empty", place, printable(part.name)));
      continue;
    }
    for (const std::string& shard : select_shards(config, part.name, meta).names) {
      if (!known.contains(shard)) {
        report.problems.push_back(
            {.shard = shard,
             .message = fmt::format("{}split part '{}' names it, .info.json does not", place,
                                    printable(part.name))});
      }
    }
  }
}

void check_splits(const LintedDataset& dataset, const std::string& meta, const LintOptions& options,
                  LintReport& report) {
  const auto attempt = [&](const auto& check) {
    try {
      check();
    } catch (const Error& error) {
      report.problems.push_back(problem_of("", error));
    }
  };
  for (const std::optional<std::string>& name : options.split_configs) {
    attempt([&] { check_split(dataset, meta, name, report); });
  }
  if (options.split_configs.empty()) {
    attempt([&] {
      const DatasetYaml yaml = read_dataset_yaml(dataset.folder, std::nullopt);
      check_split(dataset, meta, yaml.split_config, report);
    });
  }
}

// The shards of a folder without .info.json.
std::vector<std::string> shards_of_plain(const std::string& path, LintReport& report) {
  if (path_exists(path + "/.nv-meta")) {
    report.problems.push_back(
        {.message = ".nv-meta/.info.json is missing: the dataset is not prepared completely"});
  }
  FoundShards found = find_shards(path);
  for (std::string& warning : found.warnings()) {
    report.warnings.push_back(std::move(warning));
  }
  if (found.names.empty()) {
    throw Error(ErrorCode::kNotFound, "no shards in this folder or below it", {.path = path});
  }
  return std::move(found.names);
}

LintedDataset lint_prepared(const std::string& path, const DatasetInfo& info,
                            const LintOptions& options, LintReport& report) {
  const std::string meta = path + "/.nv-meta";
  LintedDataset dataset{.folder = path};
  for (const ShardCount& shard : info.shards) {
    dataset.shards.push_back(shard.name);
    dataset.counts.push_back(shard.sample_count);
  }
  if (path_exists(meta + "/index.sqlite")) {
    dataset.sqlite_path = meta + "/index.sqlite";
  }
  try {
    dataset.records = ShardRecords::load(meta, info);
  } catch (const Error& error) {
    report.problems.push_back(problem_of("", error));
  }
  dataset.summary = lint_summary(dataset, report);
  check_splits(dataset, meta, options, report);
  return dataset;
}

}  // namespace

LintProblem problem_of(const std::string& shard, const Error& error) {
  return {.shard = shard,
          .byte_offset = error.context().byte_offset,
          .key = error.context().sample_key,
          .message = error.message()};
}

LintedDataset lint_files(const std::string& path, const LintOptions& options, LintReport& report) {
  if (!std::filesystem::is_directory(path)) {
    ShardList list = list_shards({path});
    return {.folder = std::move(list.folder), .shards = std::move(list.names)};
  }
  if (const auto info = read_dataset_info(path + "/.nv-meta")) {
    return lint_prepared(path, *info, options, report);
  }
  return {.folder = path, .shards = shards_of_plain(path, report)};
}

}  // namespace energon
