// Finds the positions of excluded samples: those that a split file lists, and those whose media do
// not satisfy a condition.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"
#include "io/dataset/quarantine.h"

namespace energon {

/// One excluded sample.
struct ExcludeEntry {
  std::string shard;
  std::string key;
};

/// Splits "shard/key". Both may contain slashes: the shortest prefix that is a key of `shards` is
/// the shard. Nullopt if there is none.
std::optional<ExcludeEntry> split_exclude_entry(
    const std::string& entry, const std::unordered_map<std::string, std::int64_t>& shards);

/// Adds samples to `list`, which is then sorted and without duplicates. Looks up keys in
/// `index_path` or, if that file does not exist, by scanning the named shards. An entry that
/// matches nothing becomes a warning. Throws Error as SampleIndex and scan_shard().
void resolve_excludes(const std::vector<std::string>& entries, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set,
                      ExcludeList list = &ShardSet::excludes);

/// Adds to set.excludes, unsorted, each sample of `set` that does not satisfy options.media_filter
/// or has no media metadata. Reads `index_path` in parallel. Ignores broken shards. Throws Error as
/// SampleIndex; kInvalidArgument if there is no media metadata, with the command to run, or if no
/// sample is left.
void exclude_by_media(const OpenOptions& options, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set);

}  // namespace energon
