#include "io/dataset/dataset_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/excluded_samples.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/quarantine.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_opening.h"
#include "io/dataset/shard_record.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {

namespace fs = std::filesystem;

// --- Shards that cannot be opened, under BrokenShards::kSkip ---

namespace {

// The number of samples in a shard that cannot be opened. Throws Error if it is not known.
using CountOfBroken = std::function<std::int64_t(const ShardFile&)>;

// Whether an error is the shard's fault. Other errors concern the machine or the caller: with too
// many open files or a failing server (kIo), every shard looks broken for a while.
bool is_about_shard(ErrorCode code) {
  return code == ErrorCode::kNotFound || code == ErrorCode::kCorruptData ||
         code == ErrorCode::kUnsupported || code == ErrorCode::kInvalidArgument;
}

void set_broken(ShardSet& set, std::size_t i, const Error& error, const CountOfBroken& count) {
  ShardFile& shard = set.shards[i];
  const std::string name = shard.name;
  shard = {.name = name, .is_broken = true};
  try {
    shard.sample_count = count(shard);
  } catch (const Error& unknown) {
    throw Error(
        error.code(),
        fmt::format("shard '{}' cannot be read, and cannot be skipped: its number of samples is "
                    "unknown ({}), so ranks that can read it would divide the data differently. "
                    "Run: energon prepare; or name the shard in a file for --exclude. Cause: {}",
                    printable(name), unknown.message(), error.message()),
        error.context());
  }
  set.broken.push_back({.name = name, .code = error.code(), .cause = error.what()});
  set.warnings.push_back(fmt::format("shard '{}' is broken, its {} samples are skipped: {}",
                                     printable(name), shard.sample_count, error.what()));
}

// Marks the shards with errors as broken; `errors` has one entry per shard. Throws the first error
// that is not a shard's fault, an Error if the count of a broken shard is not known, or the first
// error if no shard is left.
void mark_broken(ShardSet& set, const std::vector<std::exception_ptr>& errors,
                 const CountOfBroken& count) {
  for (std::size_t i = 0; i < errors.size(); ++i) {
    if (!errors[i]) {
      continue;
    }
    try {
      std::rethrow_exception(errors[i]);
    } catch (const Error& error) {
      if (!is_about_shard(error.code())) {
        throw;
      }
      set_broken(set, i, error, count);
    }
  }
  if (set.broken.size() == set.shards.size()) {
    rethrow_first(errors);
  }
}

// Excludes the samples of broken shards, so that the other samples keep their positions.
void exclude_broken(ShardSet& set) {
  std::set<std::string> names;
  for (const BrokenShard& shard : set.broken) {
    names.insert(shard.name);
  }
  exclude_shards(names, set, &ShardSet::excludes);
}

// --- Shards that quarantine files exclude in place ---

// Opens shards. One that cannot be opened, because it is damaged or missing, keeps its place if its
// samples are excluded and their number is known. Thread-safe for different shards.
class ExcludedShards {
 public:
  ExcludedShards(const std::set<std::string>& names, ShardSet& set)
      : names_(names), set_(set), is_lost_(set.shards.size()) {}

  /// Calls `open()`, which fills in shard i. `count` as for mark_broken().
  template <class Open>
  void open(std::size_t i, const Open& open, const CountOfBroken& count) {
    ShardFile& shard = set_.shards[i];
    if (!names_.contains(shard.name)) {
      open();
      return;
    }
    try {
      open();
    } catch (const Error& error) {
      if (!is_about_shard(error.code())) {
        throw;
      }
      shard = {.name = shard.name, .is_broken = true};
      try {
        shard.sample_count = count(shard);
      } catch (const Error&) {
        is_lost_[i] = 1;
      }
    }
  }

  /// Drops the shards whose number of samples is not known: they have no places.
  void drop_lost() {
    std::size_t i = 0;
    std::erase_if(set_.shards, [&](const ShardFile&) { return is_lost_[i++] != 0; });
  }

 private:
  const std::set<std::string>& names_;
  ShardSet& set_;
  std::vector<char> is_lost_;  // several threads write
};

// What quarantine files of the options exclude. `index_path` as for resolve_excludes().
void exclude_in_place(const QuarantinedSamples& quarantined, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set) {
  constexpr ExcludeList kList = &ShardSet::excludes_in_place;
  exclude_shards(quarantined.shards, set, kList);
  exclude_by_index(quarantined, set, kList);
  resolve_excludes(quarantined.entries(), info, index_path, set, kList);
}

// --- Steps of opening shared by prepared datasets and plain tars ---

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

// Runs `open` for each shard of `set` in parallel and reports progress. Throws the Error of the
// first shard that has one, or skips broken shards, depending on the options.
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

// Warns about shards without samples and shards that are the same file. Throws Error
// (kInvalidArgument) if there is no sample at all.
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
    if (shard.tar_identity == FileIdentity()) {
      continue;  // unknown, because the shard was not opened
    }
    const auto [first, is_new] =
        files.emplace(std::pair(shard.tar_identity.device, shard.tar_identity.inode), &shard);
    if (!is_new) {
      set.warnings.push_back(fmt::format(
          "shards '{}' and '{}' are the same file; its samples appear twice in every epoch",
          printable(first->second->name), printable(shard.name)));
    }
  }
  if (samples == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no samples in {} shards", set.shards.size()),
                {.path = set.dataset_path});
  }
}

// --- One split part of a prepared dataset ---

// Sample counts by shard; the names point into a DatasetInfo.
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

// What the split file excludes.
struct Excludes {
  std::vector<std::string> entries;  // shards and samples
  std::vector<std::string> files;    // quarantine files
};

Excludes sort_excludes(const std::string& path, const std::vector<std::string>& split_entries) {
  Excludes excludes;
  for (const std::string& entry : split_entries) {
    if (entry.ends_with(".jsonl")) {
      excludes.files.push_back((fs::path(path) / entry).string());
    } else {
      excludes.entries.push_back(entry);
    }
  }
  return excludes;
}

// Opens each shard.
void open_each(const DatasetInfo& info, const ShardCounts& counts, const OpenOptions& options,
               const std::set<std::string>& excluded, ShardSet& set) {
  const std::optional<ShardRecords> records =
      ShardRecords::load(set.dataset_path + "/.nv-meta", info);
  ShardWarnings warnings(set);
  const auto count = [&](const ShardFile& shard) { return counts.at(shard.name); };
  ExcludedShards excluded_shards(excluded, set);
  const auto open = [&](ShardFile& shard, std::size_t i) {
    const ShardRecord* const record = records ? records->find(shard.name) : nullptr;
    const auto open_one = [&] {
      if (auto odd = open_shard(shard, counts.at(shard.name), set.dataset_path, record, options)) {
        warnings.of(i).push_back(std::move(*odd));
      }
    };
    excluded_shards.open(i, open_one, count);
  };
  open_shards(set, options, open, count);
  for (const ShardFile& shard : set.shards) {
    if (!shard.is_broken) {
      check_has_checksums(shard, records && records->has_checksums(), options);
    }
  }
  warnings.append_to(set.warnings);
}

// `path` is absolute and has a folder .nv-meta. Throws Error as open_split().
ShardSet open_prepared(const std::string& path, const OpenOptions& options) {
  const std::string meta = path + "/.nv-meta";
  const std::optional<std::string> text = read_info_text(meta);
  const auto summarized = text ? RecordedShards::find(path, *text, options) : nullptr;
  const auto info = summarized ? std::optional(summarized->info()) : parse_info(text, meta);
  if (!info) {
    fail_unprepared(path, ".nv-meta/.info.json is missing");
  }
  const SplitConfig config = read_split(path, meta, options);
  const SelectedShards selected = select_shards(config, options.split_part, meta);
  const ShardCounts counts = counts_of(*info);
  ShardSet set{.dataset_path = path, .kind = "prepared"};
  add_shards(selected.names, counts, meta, options, set);
  Excludes excludes = sort_excludes(path, selected.exclude_entries);
  const QuarantinedSamples quarantined = find_quarantined(excludes.files, set);
  drop_shards(quarantined.shards, set);
  const QuarantinedSamples in_place = find_quarantined(options.exclude_files, set);
  if (summarized) {
    summarized->open(set, options);
  } else {
    open_each(*info, counts, options, in_place.shards, set);
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
  exclude_in_place(in_place, *info, meta + "/index.sqlite", set);
  return set;
}

}  // namespace

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

// --- Plain tars, and the choice between the two ---

namespace {

// Without a trailing slash, so that names can be appended.
std::string absolute_folder(const std::string& path) {
  const fs::path folder = fs::absolute(path).lexically_normal();
  return folder.has_filename() ? folder.string() : folder.parent_path().string();
}

// A null `summary` means to open each tar.
ShardSet open_plain(const ShardList& list, const OpenOptions& options,
                    const std::shared_ptr<const PlainRecords>& summary) {
  if (options.media_filter) {
    throw Error(ErrorCode::kInvalidArgument,
                "media_filter needs media metadata, which only prepared datasets have: run energon "
                "prepare --media-metadata-by-extension",
                {.path = list.folder});
  }
  ShardSet set{.dataset_path = list.folder, .kind = "plain"};
  for (const std::string& name : list.names) {
    set.shards.push_back({.name = name});
  }
  const QuarantinedSamples in_place = find_quarantined(options.exclude_files, set);
  ShardWarnings warnings(set);
  const auto count = [&](const ShardFile& shard) {
    return summarize_tar_index(tar_index_path(list.folder + "/" + shard.name),
                               std::numeric_limits<std::uint64_t>::max())
        .sample_count;
  };
  ExcludedShards excluded_shards(in_place.shards, set);
  const auto open = [&](ShardFile& shard, std::size_t i) {
    const auto open_one = [&] {
      if (summary && summary->describe(shard, warnings.of(i))) {
        return;
      }
      warnings.of(i) = open_plain_shard(shard, list.folder, options);
      if (summary) {
        PlainRecords::digest(shard);
      }
    };
    excluded_shards.open(i, open_one, count);
  };
  open_shards(set, options, open, count);
  warnings.append_to(set.warnings);
  excluded_shards.drop_lost();
  if (summary) {
    summary->note(set);
    set.check = summary->check();
  }
  check_not_empty(set);
  exclude_broken(set);
  std::sort(set.excludes.begin(), set.excludes.end());
  DatasetInfo info;
  for (const ShardFile& shard : set.shards) {
    info.shards.push_back({shard.name, shard.sample_count});
  }
  exclude_in_place(in_place, info, "", set);
  return set;
}

void refuse_other_kinds(const std::string& path) {
  const bool is_jsonl = path.ends_with(".jsonl");
  if (is_jsonl || path.ends_with(".yaml")) {
    throw Error(
        ErrorCode::kUnsupported,
        fmt::format("a {} has no shards; expected a dataset's folder, a tar or a pattern of tars",
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
  ShardSet set = open_plain(list, options, PlainRecords::find(list, options));
  for (std::string& warning : found.warnings()) {
    set.warnings.push_back(std::move(warning));
  }
  return set;
}

ShardSet open_split(const std::vector<std::string>& paths, const OpenOptions& options) {
  return open_plain(list_shards(paths), options, nullptr);
}

}  // namespace energon
