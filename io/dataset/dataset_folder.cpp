#include "io/dataset/dataset_folder.h"

#include <filesystem>
#include <limits>
#include <memory>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/broken_shards.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/opening_steps.h"
#include "io/dataset/plain_summary.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/prepared_folder.h"
#include "io/dataset/quarantined_samples.h"
#include "io/dataset/read_committed.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_opening.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// Without a slash at the end, so that names can be appended.
std::string absolute_folder(const std::string& path) {
  const fs::path folder = fs::absolute(path).lexically_normal();
  return folder.has_filename() ? folder.string() : folder.parent_path().string();
}

// `summary`: null to look at each tar.
ShardSet open_plain(const ShardList& list, const OpenOptions& options,
                    const std::shared_ptr<const PlainSummary>& summary) {
  if (options.media_filter) {
    throw Error(ErrorCode::kInvalidArgument,
                "media_filter needs media metadata, which only prepared datasets have: run energon "
                "prepare, with --media-metadata-by-extension",
                {.path = list.folder});
  }
  ShardSet set{.dataset_path = list.folder, .kind = "plain"};
  for (const std::string& name : list.names) {
    set.shards.push_back({.name = name});
  }
  const QuarantinedSamples quarantined = take_quarantined(options.exclude_files, set);
  ShardWarnings warnings(set);
  const auto open = [&](ShardFile& shard, std::size_t i) {
    if (summary && summary->describe(shard, warnings.of(i))) {
      return;
    }
    warnings.of(i) = open_plain_shard(shard, list.folder, options);
    if (summary) {
      PlainSummary::digest(shard);
    }
  };
  open_shards(set, options, open, [&](const ShardFile& shard) {
    return summarize_tar_index(tar_index_path(list.folder + "/" + shard.name),
                               std::numeric_limits<std::uint64_t>::max())
        .sample_count;
  });
  warnings.append_to(set.warnings);
  if (summary) {
    summary->note(set);
    set.check = summary->check();
  }
  check_not_empty(set);
  exclude_broken(set);
  exclude_by_index(quarantined, set);
  DatasetInfo info;
  for (const ShardFile& shard : set.shards) {
    info.shards.push_back({shard.name, shard.sample_count});
  }
  resolve_excludes(quarantined.entries(), info, "", set);
  return set;
}

void refuse_other_kinds(const std::string& path) {
  const bool is_jsonl = path.ends_with(".jsonl");
  if (is_jsonl || path.ends_with(".yaml")) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("a {} has no shards of its own; expected a dataset's folder, a tar or a "
                    "pattern of tars",
                    is_jsonl ? "JSONL file" : "metadataset"),
        {.path = path});
  }
}

}  // namespace

ShardSet open_split(const std::string& path, const OpenOptions& options) {
  check_path(path);
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    refuse_other_kinds(path);
    return open_split(std::vector<std::string>{path}, options);
  }
  const std::string folder = absolute_folder(path);
  bool is_prepared = path_exists(folder + "/.nv-meta");
  if (!is_prepared) {
    complete_commit(folder);
    is_prepared = path_exists(folder + "/.nv-meta");
  }
  if (is_prepared) {
    ShardSet set;
    read_committed(folder, [&] { set = open_prepared(folder, options); });
    return set;
  }
  FoundShards found = find_shards(folder);
  const ShardList list{.folder = folder, .names = std::move(found.names)};
  if (list.names.empty()) {
    throw Error(ErrorCode::kNotFound,
                "no shards in this folder or below it: no .tar, .tgz, .tar.gz or .tar.zst",
                {.path = folder});
  }
  ShardSet set = open_plain(list, options, PlainSummary::find(list, options));
  for (std::string& warning : found.warnings()) {
    set.warnings.push_back(std::move(warning));
  }
  return set;
}

ShardSet open_split(const std::vector<std::string>& paths, const OpenOptions& options) {
  return open_plain(list_shards(paths), options, nullptr);
}

}  // namespace energon
