// Finds the positions of samples that are left out: those that a split file names, and those whose
// media do not fulfil a condition.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_info.h"

namespace energon {

/// One sample that is left out.
struct ExcludeEntry {
  std::string shard;
  std::string key;
};

/// Splits "shard/key". Both may contain slashes: the shortest prefix that is a key of `shards` is
/// the shard. Empty if there is none.
std::optional<ExcludeEntry> split_exclude_entry(
    const std::string& entry, const std::unordered_map<std::string, std::int64_t>& shards);

/// Adds samples to set.excludes, which is then sorted and without duplicates. Looks up keys in
/// `index_path` or, if that file does not exist, by scanning the named shards. An entry that names
/// nothing becomes a warning. Throws Error as SampleIndex and scan_shard().
void resolve_excludes(const std::vector<std::string>& entries, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set);

/// Adds to set.excludes, unsorted, each sample of the shards of `set` that does not fulfil
/// options.media_filter, or of whose media nothing is known. Reads `index_path` in parallel. Broken
/// shards are passed over. Throws Error as SampleIndex; kInvalidArgument, which says what to
/// prepare, if there is no media metadata, and if no sample is left.
void exclude_by_media(const OpenOptions& options, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set);

}  // namespace energon
