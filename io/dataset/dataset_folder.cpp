#include "io/dataset/dataset_folder.h"

#include <algorithm>
#include <filesystem>
#include <limits>
#include <map>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "io/dataset/broken_shards.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/expanded_copy.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/quarantined_samples.h"
#include "io/dataset/read_committed.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_opening.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/parallel_for.h"
#include "io/index/tar_index.h"
#include "io/mutex.h"
#include "io/path_exists.h"

namespace energon {
namespace {

namespace fs = std::filesystem;

// Without a slash at the end, so that names can be appended.
std::string absolute_folder(const std::string& path) {
  const fs::path folder = fs::absolute(path).lexically_normal();
  return folder.has_filename() ? folder.string() : folder.parent_path().string();
}

// Counts opened shards and reports them to the user, from one thread at a time.
class OpenCounter {
 public:
  OpenCounter(const OpenOptions& options, std::int64_t total)
      : options_(options), progress_{.shards_done = 0, .shards_total = total} {}

  void add_shard() {
    const MutexLock lock(mutex_);
    ++progress_.shards_done;
    if (options_.progress) {
      options_.progress(progress_);
    }
  }

 private:
  const OpenOptions& options_;
  Mutex mutex_;
  OpenProgress progress_ ENERGON_GUARDED_BY(mutex_);
};

// Runs `open` for each shard of `set` in parallel and reports progress.
void open_shards(ShardSet& set, const OpenOptions& options,
                 const std::function<void(ShardFile&, std::size_t)>& open,
                 const CountOfBroken& count_of_broken) {
  const auto total = static_cast<std::int64_t>(set.shards.size());
  OpenCounter counter(options, total);
  const auto errors =
      parallel_for(total, thread_count(options.index_threads, total), [&](std::int64_t i) {
        open(set.shards[static_cast<std::size_t>(i)], static_cast<std::size_t>(i));
        counter.add_shard();
      });
  if (options.broken_shards == BrokenShards::kSkip) {
    mark_broken(set, errors, count_of_broken);
  } else {
    rethrow_first(errors);
  }
}

void check_not_empty(ShardSet& set) {
  std::int64_t samples = 0;
  std::map<std::pair<std::uint64_t, std::uint64_t>, const ShardFile*> files;
  for (const ShardFile& shard : set.shards) {
    if (shard.is_broken) {
      continue;  // has its own warning
    }
    samples += shard.sample_count;
    if (shard.sample_count == 0) {
      set.warnings.push_back(fmt::format("shard '{}' has no samples", printable(shard.name)));
    }
    const auto [first, is_new] =
        files.emplace(std::pair(shard.tar_identity.device, shard.tar_identity.inode), &shard);
    if (!is_new) {
      set.warnings.push_back(
          fmt::format("shards '{}' and '{}' are the same file; its samples come "
                      "twice in every epoch",
                      printable(first->second->name), printable(shard.name)));
    }
  }
  if (samples == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no samples in {} shards", set.shards.size()),
                {.path = set.dataset_path});
  }
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

// Sample counts by shard, as in .info.json.
using ShardCounts = std::unordered_map<std::string, std::int64_t>;

ShardCounts counts_of(const DatasetInfo& info) {
  ShardCounts counts;
  for (const ShardCount& shard : info.shards) {
    counts.emplace(shard.name, shard.sample_count);
  }
  return counts;
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

ShardSet open_prepared(const std::string& path, const OpenOptions& options) {
  const std::string meta = path + "/.nv-meta";
  const auto info = read_dataset_info(meta);
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
  const std::optional<ShardRecords> records = ShardRecords::load(meta, *info);
  ShardWarnings warnings(set);
  const auto open = [&](ShardFile& shard, std::size_t i) {
    if (auto odd = open_shard(shard, counts.at(shard.name), path, records, options)) {
      warnings.of(i).push_back(std::move(*odd));
    }
  };
  open_shards(set, options, open, [&](const ShardFile& shard) { return counts.at(shard.name); });
  for (const ShardFile& shard : set.shards) {
    if (!shard.is_broken) {
      check_has_checksums(shard, records, options);
    }
  }
  warnings.append_to(set.warnings);
  check_not_empty(set);
  exclude_broken(set);
  exclude_by_index(quarantined, set);
  for (std::string& entry : quarantined.entries()) {
    excludes.entries.push_back(std::move(entry));
  }
  resolve_excludes(excludes.entries, *info, meta + "/index.sqlite", set);
  return set;
}

ShardSet open_plain(const ShardList& list, const OpenOptions& options) {
  ShardSet set{.dataset_path = list.folder, .kind = "plain"};
  for (const std::string& name : list.names) {
    set.shards.push_back({.name = name});
  }
  const QuarantinedSamples quarantined = take_quarantined(options.exclude_files, set);
  ShardWarnings warnings(set);
  const auto open = [&](ShardFile& shard, std::size_t i) {
    const std::string original = list.folder + "/" + shard.name;
    shard.tar_path = ensure_expanded(original, options.cache_dir);
    read_copy(original, shard.tar_path, [&] {
      IndexedTar indexed =
          index_tar(original, shard.tar_path, options.cache_dir, options.strictness);
      shard.index_path = indexed.index_path;
      warnings.of(i) = std::move(indexed.warnings);
      if (auto odd = measure_shard(shard, FileSource(shard.tar_path), options.strictness);
          odd && !indexed.is_new) {
        warnings.of(i).push_back(std::move(*odd));
      }
    });
    // Only an index beside the data has checksums, never one in the cache.
    const std::string checksums = checksum_path(shard.index_path);
    shard.checksum_path = path_exists(checksums) ? checksums : "";
  };
  open_shards(set, options, open, [&](const ShardFile& shard) {
    return summarize_tar_index(tar_index_path(list.folder + "/" + shard.name),
                               std::numeric_limits<std::uint64_t>::max())
        .sample_count;
  });
  warnings.append_to(set.warnings);
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
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    refuse_other_kinds(path);
    return open_split(std::vector<std::string>{path}, options);
  }
  const std::string folder = absolute_folder(path);
  complete_commit(folder);
  if (path_exists(folder + "/.nv-meta")) {
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
  ShardSet set = open_plain(list, options);
  for (std::string& warning : found.warnings()) {
    set.warnings.push_back(std::move(warning));
  }
  return set;
}

ShardFile open_prepared_shard(const std::string& folder, const DatasetInfo& info,
                              std::size_t position, const OpenOptions& options) {
  const ShardCount& listed = info.shards.at(position);
  check_shard_name(listed.name, folder);
  ShardFile shard{.name = listed.name};
  const std::optional<ShardRecords> records = ShardRecords::load(folder + "/.nv-meta", info);
  open_shard(shard, listed.sample_count, folder, records, options);
  check_has_checksums(shard, records, options);
  return shard;
}

ShardSet open_split(const std::vector<std::string>& paths, const OpenOptions& options) {
  return open_plain(list_shards(paths), options);
}

}  // namespace energon
