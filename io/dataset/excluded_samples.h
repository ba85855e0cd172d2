// From `shard/key` entries of a split file to positions. Private to io.

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

/// Splits "shard/key", where both may hold slashes: the first prefix that is a key of `shards`
/// decides. Empty if there is none.
std::optional<ExcludeEntry> split_exclude_entry(
    const std::string& entry, const std::unordered_map<std::string, std::int64_t>& shards);

/// Adds to set.excludes, which is sorted and without duplicates afterwards. Keys are looked up in
/// `index_path`, or, if there is no such file, by scanning the shards that are named. An entry that
/// names nothing becomes a warning. Throws Error as SampleIndex and scan_shard().
void resolve_excludes(const std::vector<std::string>& entries, const DatasetInfo& info,
                      const std::string& index_path, ShardSet& set);

}  // namespace energon
