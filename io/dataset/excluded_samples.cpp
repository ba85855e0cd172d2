#include "io/dataset/excluded_samples.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/tar/member_name.h"
#include "io/tar/shard_scan.h"
#include "io/tar/tar_walker.h"

namespace energon {

// --- By name ---

namespace {

// Excluded keys of one shard.
using KeysOfShard = std::map<std::string, std::set<std::string>>;
// Calls back with the position of each key that is found.
using Found = std::function<void(const std::string& key, std::int64_t sample)>;

constexpr std::size_t kMaxWarnings = 20;

class Warnings {
 public:
  explicit Warnings(std::vector<std::string>& out) : out_(out) {}

  void add(const std::string& entry, std::string_view problem) {
    if (++count_ <= kMaxWarnings) {
      out_.push_back(fmt::format("exclude entry '{}' {}", printable(entry), problem));
    }
  }

  void finish() {
    if (count_ > kMaxWarnings) {
      out_.push_back(fmt::format("{} more exclude entries match nothing", count_ - kMaxWarnings));
    }
  }

 private:
  std::vector<std::string>& out_;
  std::size_t count_ = 0;
};

// Key of the first part in a range of a tar, or nullopt if there is none or its header is damaged.
std::string key_at(const FileSource& tar, const ByteRange& range) {
  try {
    TarFileWalker walker(tar, range.offset, range.end());
    while (const auto member = walker.next()) {
      const auto name =
          member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
      if (name) {
        return std::string(name->key);
      }
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) {
      throw;
    }
  }
  return "";
}

// Nobody would notice that the wrong sample is excluded, so the database alone is not trusted.
void look_up(const SampleIndex& index, std::int64_t tar_file_id, const ShardFile& file,
             const std::set<std::string>& keys, const Found& found) {
  std::optional<FileSource> tar;
  std::optional<TarIndex> tar_index;
  for (const std::string& key : keys) {
    const auto location = index.find_sample(key);
    if (!location || location->tar_file_id != tar_file_id) {
      continue;
    }
    found(key, location->sample_index);
    if (!tar) {
      tar.emplace(file.tar_path);
      tar_index = TarIndex::load(file.index_path, tar->size());
    }
    const std::string there = key_at(*tar, tar_index->range(location->sample_index));
    if (!there.empty() && there != key) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("index.sqlite places the excluded sample at index {} of shard '{}', "
                              "but that sample is '{}'; prepare the dataset again",
                              location->sample_index, printable(file.name), printable(there)),
                  {.path = file.tar_path, .sample_key = key});
    }
  }
}

void scan(const std::string& tar_path, const std::set<std::string>& keys, const Found& found) {
  const ShardScan shard = scan_shard(FileSource(tar_path));
  for (std::size_t i = 0; i < shard.samples.size(); ++i) {
    if (keys.contains(shard.samples[i].key)) {
      found(shard.samples[i].key, static_cast<std::int64_t>(i));
    }
  }
}

void sort_unique(std::vector<SampleExclude>& excludes) {
  std::sort(excludes.begin(), excludes.end());
  excludes.erase(std::unique(excludes.begin(), excludes.end()), excludes.end());
}

}  // namespace

std::optional<ExcludeEntry> split_exclude_entry(
    const std::string& entry, const std::unordered_map<std::string, std::int64_t>& shards) {
  std::size_t slash = entry.find('/');
  while (slash != std::string::npos && !shards.contains(entry.substr(0, slash))) {
    slash = entry.find('/', slash + 1);
  }
  return slash == std::string::npos ? std::nullopt
                                    : std::optional(ExcludeEntry{.shard = entry.substr(0, slash),
                                                                 .key = entry.substr(slash + 1)});
}

void resolve_excludes(const std::vector<std::string>& entries, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set, ExcludeList list) {
  if (entries.empty()) {
    sort_unique(set.*list);
    return;
  }
  std::unordered_map<std::string, std::int64_t> ids;
  for (std::size_t i = 0; i < info.shards.size(); ++i) {
    ids.emplace(info.shards[i].name, static_cast<std::int64_t>(i));
  }
  Warnings warnings(set.warnings);
  KeysOfShard excluded;
  for (const std::string& entry : entries) {
    if (ids.contains(entry)) {
      continue;  // a whole shard of another part
    }
    if (auto parsed = split_exclude_entry(entry, ids)) {
      excluded[parsed->shard].insert(std::move(parsed->key));
    } else {
      warnings.add(entry, "matches no shard of the dataset");
    }
  }

  std::optional<SampleIndex> index;
  if (!excluded.empty() && !index_path.empty() && path_exists(index_path)) {
    index.emplace(index_path);
  }
  for (std::size_t shard = 0; shard < set.shards.size(); ++shard) {
    const auto keys = excluded.find(set.shards[shard].name);
    if (keys == excluded.end() || set.shards[shard].is_broken) {
      continue;
    }
    if (!set.shards[shard].is_checked) {
      set.shards[shard] = set.check(set.shards[shard]);
    }
    const ShardFile& file = set.shards[shard];
    std::set<std::string> missing = keys->second;
    const auto found = [&](const std::string& key, std::int64_t sample) {
      missing.erase(key);
      if (sample >= file.sample_count) {
        throw Error(ErrorCode::kCorruptData,
                    fmt::format("the excluded sample has index {} in its shard of {} samples; "
                                "prepare the dataset again",
                                sample, file.sample_count),
                    {.path = index ? index_path : file.tar_path, .sample_key = key});
      }
      (set.*list).push_back({.shard = static_cast<std::int64_t>(shard), .sample = sample});
    };
    if (index) {
      look_up(*index, ids.at(file.name), file, keys->second, found);
    } else {
      scan(file.tar_path, keys->second, found);
    }
    for (const std::string& key : missing) {
      warnings.add(file.name + "/" + key, "matches no sample of that shard");
    }
  }
  warnings.finish();
  sort_unique(set.*list);
}

// --- By their media ---

namespace {

// The result of a condition for one shard.
struct FilteredShard {
  std::vector<SampleExclude> excludes = {};
  std::int64_t known = 0;  // samples with relevant media metadata
};

class MediaFilteredShard {
 public:
  MediaFilteredShard(const MediaCondition& condition, std::int64_t shard, const ShardFile& file)
      : condition_(condition), shard_(shard), file_(file) {}

  FilteredShard read(const SampleIndex& index, std::int64_t tar_file_id,
                     const std::string& index_path) {
    index.for_each_media_of(
        tar_file_id, condition_.part, [&](std::int64_t sample, const MediaMetadata& metadata) {
          if (sample >= file_.sample_count || sample < current_) {
            throw Error(ErrorCode::kCorruptData,
                        fmt::format("index.sqlite has media for sample {} of shard '{}', which has "
                                    "{} samples; prepare the dataset again",
                                    sample, printable(file_.name), file_.sample_count),
                        {.path = index_path});
          }
          advance_to(sample);
          media_.push_back(metadata);
        });
    advance_to(file_.sample_count);
    return std::move(result_);
  }

 private:
  // Decides on the samples before `sample`.
  void advance_to(std::int64_t sample) {
    for (; current_ < sample; ++current_) {
      result_.known += media_.empty() ? 0 : 1;
      if (media_.empty() || !fulfils(media_, condition_)) {
        result_.excludes.push_back({.shard = shard_, .sample = current_});
      }
      media_.clear();
    }
  }

  const MediaCondition& condition_;
  const std::int64_t shard_;
  const ShardFile& file_;
  FilteredShard result_;
  std::int64_t current_ = 0;
  std::vector<MediaMetadata> media_;  // media of sample current_
};

void check_has_media(const std::string& index_path, const ShardSet& set) {
  if (!path_exists(index_path) || !SampleIndex(index_path).has_media()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("media_filter needs media metadata, which the dataset lacks; run: "
                            "energon prepare-media {} --media-metadata-by-extension",
                            printable(set.dataset_path)),
                {.path = set.dataset_path});
  }
}

[[noreturn]] void fail_nothing_left(const MediaCondition& condition, const ShardSet& set,
                                    std::int64_t samples, std::int64_t known) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("media_filter leaves no samples: of {} samples, {} have media metadata, "
                          "and none satisfies '{}'",
                          samples, known, to_string(condition)),
              {.path = set.dataset_path});
}

}  // namespace

void exclude_by_media(const OpenOptions& options, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set) {
  const MediaCondition& condition = *options.media_filter;
  check_has_media(index_path, set);
  std::unordered_map<std::string_view, std::int64_t> ids;
  for (const ShardCount& shard : info.shards) {
    ids.emplace(shard.name, static_cast<std::int64_t>(ids.size()));
  }
  const auto total = static_cast<std::int64_t>(set.shards.size());
  std::vector<FilteredShard> shards(set.shards.size());
  const auto filter = [&](std::int64_t shard) {
    const auto i = static_cast<std::size_t>(shard);
    const ShardFile& file = set.shards[i];
    if (!file.is_broken) {
      shards[i] = MediaFilteredShard(condition, shard, file)
                      .read(SampleIndex(index_path), ids.at(file.name), index_path);
    }
  };
  rethrow_first(parallel_for(total, thread_count(options.index_threads, total), filter));
  std::int64_t samples = 0;
  std::int64_t known = 0;
  std::int64_t left = 0;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    const auto& excludes = shards[i].excludes;
    const std::int64_t count = set.shards[i].is_broken ? 0 : set.shards[i].sample_count;
    samples += count;
    known += shards[i].known;
    left += count - static_cast<std::int64_t>(excludes.size());
    set.excludes.insert(set.excludes.end(), excludes.begin(), excludes.end());
  }
  if (left == 0) {
    fail_nothing_left(condition, set, samples, known);
  }
  set.media_filter = to_string(condition);
}

}  // namespace energon
