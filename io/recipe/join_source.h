// The datasets of a join, as their files describe them, and where the join's index is.
//
// The index lies in the folder "<metadataset>.cache" beside the metadataset. Its name depends on
// the datasets' UUIDs, excluded samples and nonmatch modes, so that an index of an earlier state is
// not found any more. It does not depend on the shards of the split part: after those were changed,
// energon prepare must be run again.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/recipe/join_index.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/recipe.h"

namespace energon {

/// One dataset of a join.
struct JoinSource {
  std::string dataset_path = {};  ///< absolute
  std::string split_part = {};
  Nonmatch nonmatch = Nonmatch::kError;
  std::string uuid = {};
  /// Shards of the split part before exclusion; JoinPlace::shard counts these.
  std::vector<std::string> shards = {};
  std::vector<std::int64_t> tar_file_ids = {};  ///< of `shards`, in index.sqlite
  std::vector<std::string> excludes = {};       ///< expanded, sorted, without doubles

  /// Whether the shard at this position is excluded as a whole.
  bool is_shard_excluded(std::size_t position) const;
};

struct JoinFiles {
  std::string index_path = {};  ///< need not exist
  std::vector<JoinSource> sources = {};
};

/// Where the datasets of a join are: what reads more than locate_join() does so in
/// read_committed().
std::vector<std::string> dataset_paths(const LeafReference& join);

/// `join` is a leaf of kind kJoin. Reads .info.json, the split file and index.uuid of each dataset.
/// Throws Error: kInvalidArgument if one is not prepared, the split part is unknown or names a
/// shard twice; kCorruptData, kIo.
JoinFiles locate_join(const LeafReference& join);

/// Throws Error as JoinIndex; kInvalidArgument that says what to run if the join is not prepared.
JoinIndex open_join_index(const JoinFiles& files, const LeafReference& join);

}  // namespace energon
