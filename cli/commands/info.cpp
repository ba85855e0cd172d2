// energon info: what a dataset contains.

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "cli/command.h"
#include "cli/data_summary.h"
#include "cli/flags.h"
#include "cli/open_dataset.h"
#include "cli/output.h"
#include "energon/read/jsonl_dataset.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/prepare_commit.h"
#include "io/error.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/tar_index.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/recipe.h"
#include "io/tar/shard_scan.h"

namespace energon::cli {
namespace {

namespace fs = std::filesystem;

struct InfoFlags {
  std::string path;
  std::optional<std::string> split_config;
  std::optional<std::string> cache_dir;
  bool has_strict_tars = false;
};

std::uint64_t file_size(const std::string& path) {
  std::error_code error;
  const std::uintmax_t size = fs::file_size(path, error);
  if (error) {
    throw Error(ErrorCode::kNotFound,
                "a shard is missing; energon lint lists all problems of the dataset",
                {.path = path});
  }
  return size;
}

std::string describe_checksums(std::size_t with, std::size_t all) {
  if (with == 0 || with == all) {
    return with == 0 ? "no" : "yes";
  }
  return fmt::format("for {} of {} shards", with, all);
}

void print_summary(const std::string& path, std::string_view kind, std::int64_t samples,
                   std::uint64_t bytes, std::size_t shards) {
  output().print("name:      {}\n", printable(fs::path(path).filename().string()));
  output().print("path:      {}\n", printable(path));
  output().print("kind:      {}\n", kind);
  output().print("samples:   {}\n", with_separators(samples));
  output().print("bytes:     {} ({})\n", with_separators(static_cast<std::int64_t>(bytes)),
                 human_bytes(bytes));
  output().print("shards:    {}\n", with_separators(static_cast<std::int64_t>(shards)));
}

// Returns a warning if a prepared shard does not end properly after its last sample, whose end is
// in the index. Compressed shards are not checked, because they would have to be expanded.
std::optional<std::string> check_end(const std::string& shard_path, const InfoFlags& flags) {
  if (!shard_path.ends_with(".tar")) {
    return std::nullopt;
  }
  try {
    const FileSource tar(shard_path);
    const TarIndexSummary summary = summarize_tar_index(tar_index_path(shard_path), tar.size());
    check_archive_end(tar, summary.end_offset);
    const ArchiveTail tail = check_archive_tail(tar, summary.end_offset);
    if (tail != ArchiveTail::kComplete) {
      throw Error(ErrorCode::kCorruptData, describe(tail, summary.end_offset));
    }
  } catch (const Error& error) {
    if (flags.has_strict_tars) {
      throw Error(error.code(), error.message(), error.context()).with({.path = shard_path});
    }
    return fmt::format("{}: {}", printable(shard_path), error.message());
  }
  return std::nullopt;
}

struct PreparedSummary {
  DatasetInfo info = {};
  std::optional<std::string> split_config = std::nullopt;  // unset means the default
  SplitConfig split = {};
  std::vector<PartSummary> parts = {};
  std::uint64_t bytes = 0;
  std::size_t checksummed = 0;  // shards
  std::vector<std::string> warnings = {};
};

PreparedSummary summarize_prepared(const std::string& path, DatasetInfo info,
                                   const InfoFlags& flags) {
  const std::string meta = path + "/.nv-meta";
  PreparedSummary summary{.info = std::move(info)};
  const std::optional<std::string> of_dataset = read_dataset_yaml(path, std::nullopt).split_config;
  summary.split_config = flags.split_config ? flags.split_config : of_dataset;
  if (of_dataset && summary.split_config != of_dataset) {
    summary.warnings.push_back(fmt::format(
        "loaders use the split file '{}', which dataset.yaml names", printable(*of_dataset)));
  }
  summary.split = read_split_config(meta, summary.split_config);
  summary.parts = summarize_parts(summary.info, summary.split, meta);
  for (const ShardCount& shard : summary.info.shards) {
    const std::string shard_path = path + "/" + shard.name;
    summary.bytes += file_size(shard_path);
    if (auto warning = check_end(shard_path, flags)) {
      summary.warnings.push_back(std::move(*warning));
    }
    std::error_code ignored;
    summary.checksummed += fs::exists(checksum_path(tar_index_path(shard_path)), ignored) ? 1 : 0;
  }
  return summary;
}

void print_prepared(const std::string& path, const PreparedSummary& summary) {
  print_warnings(summary.warnings);
  const DatasetInfo& info = summary.info;
  const SplitConfig& split = summary.split;
  print_summary(path, "prepared dataset", total_samples(info), summary.bytes, info.shards.size());
  output().print("prepared:  by {}\n",
                 printable(info.energon_version.value_or("an unknown version of energon")));
  output().print("checksums: {}\n", describe_checksums(summary.checksummed, info.shards.size()));
  output().print("splits{}:\n{}",
                 summary.split_config ? " by " + printable(*summary.split_config) : "",
                 describe_parts(summary.parts, info));
  if (split.exclude.empty()) {
    output().write("excluded:  none\n");
    return;
  }
  output().write("excluded:\n");
  for (const std::string& entry : split.exclude) {
    output().print("  {}\n", printable(entry));
  }
}

void print_plain(const std::string& path, const InfoFlags& flags) {
  const ShardSet set = open_shards(
      flags.path, {.strictness = strictness(flags.has_strict_tars), .cache_dir = flags.cache_dir});
  std::int64_t samples = 0;
  std::uint64_t bytes = 0;
  std::size_t checksummed = 0;
  for (const ShardFile& shard : set.shards) {
    samples += shard.sample_count;
    bytes += file_size(set.dataset_path + "/" + shard.name);
    checksummed += shard.checksum_path.empty() ? 0 : 1;
  }
  print_summary(path, "plain tars, not prepared", samples, bytes, set.shards.size());
  output().print("checksums: {}\n", describe_checksums(checksummed, set.shards.size()));
}

void print_jsonl(const std::string& path, const InfoFlags& flags) {
  const auto dataset = std::make_shared<const JsonlDataset>(path, flags.cache_dir);
  print_summary(path, "JSONL file", dataset->sample_count(), dataset->identity().size_bytes, 1);
}

void print_metadataset(const std::string& path, const InfoFlags& flags) {
  output().print("name:      {}\n", printable(fs::path(path).filename().string()));
  output().print("path:      {}\n", printable(path));
  output().print("kind:      metadataset\n");
  for (const MetadatasetSplit& split : read_metadataset(path).splits) {
    const PipelineData data = open_pipeline_data(
        path,
        {.split = split.name,
         .open = {.strictness = strictness(flags.has_strict_tars), .cache_dir = flags.cache_dir}});
    output().print("split {}:\n{}", printable(split.name),
                   describe_recipe(load_recipe(path, split.name), data));
  }
}

void print_tars(const std::string& path, const InfoFlags& flags) {
  std::optional<PreparedSummary> summary;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    read_committed(path, [&] {
      auto info = read_dataset_info(path + "/.nv-meta");
      summary =
          info ? std::optional(summarize_prepared(path, std::move(*info), flags)) : std::nullopt;
    });
  }
  if (summary) {
    print_prepared(path, *summary);
  } else {
    print_plain(path, flags);
  }
}

int run_info(const InfoFlags& flags) {
  std::error_code ignored;
  std::string path = fs::absolute(flags.path, ignored).lexically_normal().string();
  if (path.size() > 1 && path.ends_with('/')) {
    path.pop_back();
  }
  const DatasetKind kind = detect_dataset_kind(flags.path);
  if (flags.split_config && kind != DatasetKind::kPrepared) {
    throw UsageError{
        fmt::format("--split-config: expected a prepared dataset, found {}{}", to_string(kind),
                    kind == DatasetKind::kMetadataset
                        ? "; it specifies the split files of its datasets with split_config"
                        : "")};
  }
  switch (kind) {
    case DatasetKind::kJsonl:
      print_jsonl(path, flags);
      break;
    case DatasetKind::kMetadataset:
      print_metadataset(path, flags);
      break;
    case DatasetKind::kPrepared:
    case DatasetKind::kPlainTars:
    case DatasetKind::kFolder:
      print_tars(path, flags);
      break;
  }
  return kExitOk;
}

}  // namespace

void add_info(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand("info", "Show what a dataset contains");
  const auto flags = std::make_shared<InfoFlags>();
  add_path(*command, flags->path, PathCount::kSeveral);
  command->add_option(
      "--split-config", flags->split_config,
      "Split file in .nv-meta [default: from dataset.yaml, or split.yaml, or split.json]");
  add_cache_dir(*command, flags->cache_dir, ShardUse::kRead);
  add_strict_tars(*command, flags->has_strict_tars);
  on_run(*command, flags, run, run_info);
}

}  // namespace energon::cli
