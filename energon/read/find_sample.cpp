#include "energon/read/find_sample.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/read/jsonl_dataset.h"
#include "energon/read/webdataset.h"
#include "energon/sample/buffer_allocator.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/prepare_commit.h"
#include "io/dataset/split_config.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/checksum_file.h"
#include "io/index/index_cache.h"
#include "io/index/sample_index.h"
#include "io/index/tar_index.h"
#include "io/recipe/dataset_yaml.h"
#include "io/recipe/recipe.h"
#include "io/tar/member_name.h"
#include "io/tar/shard_scan.h"
#include "io/tar/tar_walker.h"

namespace energon {
namespace {

// Finds samples by key in the tars of one dataset, prepared or plain.

enum class KeyMatches { kFirst, kAll };

/// The part of a dataset to search.
struct SplitPart {
  std::optional<std::string> name = std::nullopt;    ///< unset means everywhere
  std::optional<std::string> config = std::nullopt;  ///< its split file; unset means the default
};

/// Throws Error (kNotFound).
[[noreturn]] void fail_key_not_found(const std::string& path, const std::string& key);

namespace fs = std::filesystem;

// The shard that has the sample, and the index of the sample in it.
struct SampleInShard {
  ShardSet shard;  // one
  std::int64_t sample = 0;
  /// The sample's parts in index.sqlite; unset if it does not list parts.
  std::optional<std::vector<PartLocation>> parts = std::nullopt;
  std::map<std::string, MediaMetadata, std::less<>> media = {};  // by the name of the part
};

// The only oddity that opening also reports, unless tars are read strictly.
std::vector<std::string> warnings_of_end(const ShardFile& shard) {
  const TarIndexSummary summary = summarize_tar_index(shard.index_path, shard.tar_size);
  if (summary.end_offset < shard.tar_size) {
    return {};
  }
  return {fmt::format("shard '{}': {}", printable(shard.name),
                      describe(ArchiveTail::kNoEnd, summary.end_offset))};
}

std::map<std::string, MediaMetadata, std::less<>> media_of(const SampleIndex& index,
                                                           const std::string& key,
                                                           const std::vector<PartLocation>& parts) {
  std::map<std::string, MediaMetadata, std::less<>> media;
  for (const PartLocation& part : parts) {
    if (const auto metadata = index.media_metadata(fmt::format("{}.{}", key, part.part))) {
      media.emplace(part.part, *metadata);
    }
  }
  return media;
}

SampleInShard find_in_prepared(const std::string& folder, const DatasetInfo& info,
                               const std::string& key, const SplitPart& part,
                               const FindOptions& options) {
  const std::string meta = folder + "/.nv-meta";
  std::vector<std::string> shards_of_part;
  if (part.name) {
    shards_of_part = select_shards(read_split_config(meta, part.config), *part.name, meta).names;
  }
  const std::string index_path = folder + "/.nv-meta/index.sqlite";
  const SampleIndex index(index_path);
  const auto location = index.find_sample(key);
  if (!location) {
    fail_key_not_found(folder, key);
  }
  const std::int64_t shard = location->tar_file_id;
  if (shard < 0 || shard >= static_cast<std::int64_t>(info.shards.size())) {
    throw Error(
        ErrorCode::kCorruptData,
        fmt::format("the sample is in shard {}, but .info.json names {} shards; prepare the "
                    "dataset again",
                    shard, info.shards.size()),
        {.path = index_path, .sample_key = key});
  }
  const std::string& shard_name = info.shards[static_cast<std::size_t>(shard)].name;
  if (part.name &&
      std::find(shards_of_part.begin(), shards_of_part.end(), shard_name) == shards_of_part.end()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("the sample '{}' is in the shard '{}', which is not in the split part "
                            "'{}'",
                            printable(key), printable(shard_name), printable(*part.name)),
                {.path = folder});
  }
  if (!options.reads) {
    return {.shard = {.dataset_path = folder,
                      .kind = "prepared",
                      .shards = {{.name = shard_name, .is_checked = false}}},
            .sample = location->sample_index};
  }
  const ShardFile file =
      open_prepared_shard(folder, info, static_cast<std::size_t>(shard), options.open);
  SampleInShard found = {.shard = {.dataset_path = folder,
                                   .kind = "prepared",
                                   .shards = {file},
                                   .warnings = warnings_of_end(file)},
                         .sample = location->sample_index};
  if (index.has_parts()) {
    found.parts = index.parts_of(key);
    if (index.has_media()) {
      found.media = media_of(index, key, *found.parts);
    }
  }
  return found;
}

// The index of the sample `key` in a shard, found by its headers.
std::optional<std::int64_t> number_in_shard(const ShardFile& shard, const std::string& key,
                                            const FindOptions& options) {
  const FileSource tar(shard.tar_path);
  TarFileWalker walker(tar);
  while (const auto member = walker.next()) {
    if (options.check_cancelled) {
      options.check_cancelled();
    }
    const auto name =
        member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
    if (name && name->key == key) {
      const TarIndex index = TarIndex::load(shard.index_path, shard.tar_size);
      const auto entries = index.entries();
      const auto next = std::upper_bound(entries.begin(), entries.end(), member->header_offset);
      return std::max<std::int64_t>(next - entries.begin() - 1, 0);
    }
  }
  return std::nullopt;
}

std::optional<std::int64_t> find_in_shard(const ShardFile& shard, const std::string& key,
                                          const FindOptions& options) {
  try {
    return number_in_shard(shard, key, options);
  } catch (Error& error) {
    throw error.with({.path = shard.tar_path});
  }
}

void tell(const std::vector<std::string>& warnings, const FindOptions& options) {
  for (const std::string& warning : warnings) {
    if (options.warn) {
      options.warn(warning);
    }
  }
}

std::vector<SampleInShard> find_in_plain(const std::string& path, const std::string& key,
                                         KeyMatches matches, const FindOptions& options) {
  const ShardSet shards = open_split(path, options.open);
  tell(shards.warnings, options);
  std::vector<SampleInShard> places;
  for (const ShardFile& shard : shards.shards) {
    if (shard.is_broken) {
      continue;
    }
    if (const auto sample = find_in_shard(shard, key, options)) {
      places.push_back(
          {.shard = {.dataset_path = shards.dataset_path, .kind = shards.kind, .shards = {shard}},
           .sample = *sample});
      if (matches == KeyMatches::kFirst) {
        break;
      }
    }
  }
  if (places.empty()) {
    fail_key_not_found(path, key);
  }
  return places;
}

std::vector<FoundPart> locate_parts(const ShardFile& shard, const ByteRange& range) {
  const FileSource tar(shard.tar_path);
  std::vector<std::byte> bytes(range.size);
  tar.read_at(range.offset, bytes);
  TarWalker walker(bytes, range.offset);
  std::vector<FoundPart> parts;
  while (const auto member = walker.next()) {
    const auto name =
        member->type == MemberType::kRegular ? split_member_name(member->name) : std::nullopt;
    if (name) {
      parts.push_back({.name = std::string(name->part),
                       .content = {.offset = member->data_offset, .size = member->size}});
    }
  }
  return parts;
}

std::string list_names(const std::vector<std::string>& names) {
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "));
}

// The database and the shard's index were written together; if they differ, one of them is damaged.
void check_parts(const std::vector<PartLocation>& listed, const std::vector<FoundPart>& found) {
  const bool are_same = std::equal(listed.begin(), listed.end(), found.begin(), found.end(),
                                   [](const PartLocation& a, const FoundPart& b) {
                                     return a.part == b.name && a.content == b.content;
                                   });
  if (are_same) {
    return;
  }
  std::vector<std::string> names[2];
  for (const PartLocation& part : listed) {
    names[0].push_back(printable(part.part));
  }
  for (const FoundPart& part : found) {
    names[1].push_back(printable(part.name));
  }
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("index.sqlite lists parts of this sample ({}) that differ from those found "
                  "by the shard's index ({}); one of the two is damaged: prepare the dataset "
                  "again",
                  list_names(names[0]),
                  names[0] == names[1] ? "the same names, other places" : list_names(names[1])));
}

FoundSample read_sample_at(const SampleInShard& place, const std::string& key) {
  const ShardFile& shard = place.shard.shards.front();
  FoundSample found;
  found.bytes = TarIndex::load(shard.index_path, shard.tar_size).range(place.sample);
  found.parts = locate_parts(shard, found.bytes);
  if (place.parts) {
    check_parts(*place.parts, found.parts);
  }
  for (FoundPart& part : found.parts) {
    if (const auto media = place.media.find(part.name); media != place.media.end()) {
      part.media = media->second;
    }
  }
  WebdatasetReader reader(std::make_shared<const Webdataset>(place.shard));
  HeapBufferPool memory;
  std::vector<Sample> samples;
  reader.read({&place.sample, 1}, memory, samples);
  found.sample = std::move(samples.at(0));
  if (found.sample.keys.at(0) != key) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the index has sample '{}' here, but found '{}'; prepare the "
                            "dataset again",
                            printable(key), printable(found.sample.keys.at(0))),
                {.path = shard.tar_path, .byte_offset = found.bytes.offset});
  }
  return found;
}

FoundSample read_sample(const SampleInShard& place, const std::string& key) {
  const ShardFile& shard = place.shard.shards.front();
  try {
    return read_sample_at(place, key);
  } catch (const Error& error) {
    // The error may name an index, or the expanded copy in a cache, instead of the shard.
    throw Error(error.code(), fmt::format("shard '{}': {}", printable(shard.name), error.message()),
                error.context())
        .with({.path = shard.tar_path, .sample_key = key});
  }
}

// The sample as if it had been read, with its key and source only.
FoundSample place_only(const SampleInShard& place, const std::string& key) {
  FoundSample found;
  found.sample.keys.push_back(key);
  found.sample.sources.push_back({.shard = std::make_shared<const SourceShard>(
                                      SourceShard{.dataset_path = place.shard.dataset_path,
                                                  .shard_name = place.shard.shards.front().name,
                                                  .subflavors = "{}"}),
                                  .index_in_shard = place.sample,
                                  .bytes = {}});
  return found;
}

/// The samples with this key in the tars at `path`, at least one. `options.split` is not used.
/// Throws Error like find_sample().
std::vector<FoundSample> find_in_shards(const std::string& path, const std::string& key,
                                        const SplitPart& part, KeyMatches matches,
                                        const FindOptions& options) {
  std::vector<FoundSample> found;
  std::vector<std::string> warnings;  // not yet reported
  const auto read_all = [&](const std::vector<SampleInShard>& places) {
    found.clear();
    warnings.clear();
    for (const SampleInShard& place : places) {
      warnings.insert(warnings.end(), place.shard.warnings.begin(), place.shard.warnings.end());
      found.push_back(options.reads ? read_sample(place, key) : place_only(place, key));
    }
  };
  std::error_code ignored;
  if (!fs::is_directory(path, ignored)) {
    read_all(find_in_plain(path, key, matches, options));
    return found;
  }
  const std::string folder = fs::canonical(path).string();
  read_committed(folder, [&] {
    const auto info = read_dataset_info(folder + "/.nv-meta");
    read_all(info ? std::vector{find_in_prepared(folder, *info, key, part, options)}
                  : find_in_plain(path, key, matches, options));
  });
  tell(warnings, options);
  return found;
}

void fail_key_not_found(const std::string& path, const std::string& key) {
  throw Error(ErrorCode::kNotFound, fmt::format("no sample has the key '{}'", printable(key)),
              {.path = path});
}

// The line of a JSONL file.
FoundSample find_line(const std::string& path, const std::string& key, const FindOptions& options) {
  const auto dataset = std::make_shared<const JsonlDataset>(path, options.open.cache_dir);
  std::int64_t index = 0;
  const auto [stop, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (error != std::errc() || stop != key.data() + key.size() || index < 0 ||
      index >= dataset->sample_count()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("no sample has the key '{}'; keys are the numbers of the lines, from 0 "
                            "to {}",
                            printable(key), dataset->sample_count() - 1),
                {.path = path});
  }
  const ByteRange bytes = dataset->index().range(index);
  if (!options.reads) {
    FoundSample found{.sample = {}, .bytes = bytes, .parts = {}};
    found.sample.keys.push_back(key);
    found.sample.sources.push_back(
        {.shard = dataset->source(), .index_in_shard = index, .bytes = bytes});
    return found;
  }
  HeapBufferPool memory;
  std::vector<Sample> samples;
  dataset->open_reader()->read({&index, 1}, memory, samples);
  return {.sample = std::move(samples.at(0)),
          .bytes = bytes,
          .parts = {{.name = "json", .content = bytes}}};
}

std::vector<FoundSample> find_in(const std::string& path, const std::string& key,
                                 const SplitPart& part, KeyMatches matches,
                                 const FindOptions& options);

// The datasets of a leaf, restricted to a split if one is requested.
std::vector<std::pair<std::string, SplitPart>> places_of(const LeafReference& leaf,
                                                         bool is_split_wanted) {
  std::vector<std::pair<std::string, SplitPart>> places;
  const auto add = [&](const std::string& path, const std::string& part,
                       const std::optional<std::string>& config) {
    places.emplace_back(path, is_split_wanted ? SplitPart{part, config} : SplitPart());
  };
  if (leaf.kind != LeafReference::Kind::kJoin) {
    add(leaf.path, leaf.split_part, leaf.split_config);
  }
  for (const JoinColumn& column : leaf.columns) {
    add(column.path, column.split_part, column.split_config);
  }
  return places;
}

// Searches the datasets of a metadataset in order, in one of its splits or in all.
std::vector<FoundSample> find_in_metadataset(const std::string& path, const std::string& key,
                                             const std::optional<std::string>& wanted_split,
                                             KeyMatches matches, const FindOptions& options) {
  std::vector<FoundSample> found;
  const Metadataset metadataset = read_metadataset(path);
  const std::vector<MetadatasetSplit> splits =
      wanted_split ? std::vector{metadataset.split(*wanted_split)} : metadataset.splits;
  std::set<std::tuple<std::string, std::optional<std::string>, std::optional<std::string>>>
      searched;
  for (const MetadatasetSplit& split : splits) {
    for (const LeafReference& leaf : load_recipe(path, split.name).leaves) {
      for (const auto& [dataset, part] : places_of(leaf, wanted_split.has_value())) {
        if (!searched.insert({dataset, part.name, part.config}).second) {
          continue;
        }
        try {
          auto here = find_in(dataset, key, part, matches, options);
          std::move(here.begin(), here.end(), std::back_inserter(found));
        } catch (const Error& error) {
          if (error.code() != ErrorCode::kNotFound) {
            throw;
          }
        }
        if (!found.empty() && matches == KeyMatches::kFirst) {
          return found;
        }
      }
    }
  }
  if (found.empty()) {
    fail_key_not_found(path, key);
  }
  return found;
}

// At least one; throws kNotFound if there is none.
std::vector<FoundSample> find_in(const std::string& path, const std::string& key,
                                 const SplitPart& part, KeyMatches matches,
                                 const FindOptions& options) {
  switch (detect_dataset_kind(path)) {
    case DatasetKind::kJsonl:
      return {find_line(path, key, options)};
    case DatasetKind::kMetadataset:
      return find_in_metadataset(path, key, part.name, matches, options);
    case DatasetKind::kPrepared:
    case DatasetKind::kPlainTars:
    case DatasetKind::kFolder:
      break;
  }
  return find_in_shards(path, key, part, matches, options);
}

SplitPart part_of_options(const std::string& path, const FindOptions& options) {
  SplitPart part{.name = options.split};
  if (options.split && detect_dataset_kind(path) == DatasetKind::kPrepared) {
    part.config = read_dataset_yaml(path, std::nullopt).split_config;
  }
  return part;
}

}  // namespace

FoundSample find_sample(const std::string& path, const std::string& key,
                        const FindOptions& options) {
  const SplitPart part = part_of_options(path, options);
  return std::move(find_in(path, key, part, KeyMatches::kFirst, options).front());
}

std::vector<FoundSample> find_samples(const std::string& path, const std::string& key,
                                      const FindOptions& options) {
  return find_in(path, key, part_of_options(path, options), KeyMatches::kAll, options);
}

}  // namespace energon
