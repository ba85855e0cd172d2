// energon prepare for data other than folders of shards: JSONL files and metadatasets.

#pragma once

#include <optional>
#include <string>
#include <vector>

namespace energon::cli {

/// Prepares `path` if it is a JSONL file or a metadataset and returns the exit code; empty if it is
/// neither. `shard_flags` are the given options that apply to shards only. Throws UsageError if
/// there are any, Error as prepare_jsonl() and prepare_metadataset().
std::optional<int> prepare_other_kind(const std::string& path,
                                      const std::vector<std::string>& shard_flags);

}  // namespace energon::cli
