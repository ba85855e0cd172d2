// Prepares data other than folders of shards: the index of a JSONL file, the join indices of a
// metadataset.

#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "io/recipe/recipe.h"

namespace energon {

struct JsonlReport {
  std::int64_t samples = 0;
  std::vector<std::string> warnings = {};  ///< if the replaced index proves that the file shrank
};

/// Writes the index next to the file, replacing an existing one. Throws Error as
/// write_jsonl_index(), kCancelled if `stop` was requested.
JsonlReport prepare_jsonl(const std::string& path, const std::stop_token& stop = {});

struct JoinReport {
  std::string index_path = {};
  std::int64_t rows = 0;
  std::int64_t primary_samples = 0;        ///< not excluded; those without a row were skipped
  std::vector<std::int64_t> missing = {};  ///< per dataset: rows without a sample (nonmatch: none)
};

/// Joins by sample key and replaces the index. Rows are in the order of the first dataset: shards
/// as the split part lists them, samples as in their shard. Excluded shards and samples of all
/// datasets are skipped. Requires: `join` is a leaf of kind kJoin. Throws Error:
///   kInvalidArgument  not prepared; samples without a match if nonmatch is error (the message
///                     names the first keys); matches in shards outside their split part
///   kCorruptData      a key occurs twice, or files of a dataset contradict each other
///   kCancelled        `stop` was requested; the earlier index is unchanged
///   kIo               the folder of the metadataset cannot be written
JoinReport prepare_join(const LeafReference& join, const std::stop_token& stop = {});

struct MetadatasetReport {
  std::vector<JoinReport> joins = {};     ///< one per index, in the order of the file
  std::vector<std::string> removed = {};  ///< unused indices, removed from the cache folder
};

/// Builds the index of each join in all splits of the metadataset, and of the metadatasets that it
/// refers to (in their own cache folders). Then removes the unused indices of this metadataset.
/// Throws Error as load_recipe() and prepare_join(); kInvalidArgument if another process is
/// preparing it.
MetadatasetReport prepare_metadataset(const std::string& path, const std::stop_token& stop = {});

}  // namespace energon
