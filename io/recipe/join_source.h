// The datasets of a join, as their files describe them, and the path of the join index.
//
// The index is in the folder "<metadataset>.cache" beside the metadataset. Its name depends on the
// datasets' UUIDs, excluded samples and nonmatch modes, so an index of an earlier state is no
// longer found. The name does not depend on the shards of the split part: after those change,
// energon prepare must be run again.

#pragma once

#include <cstdint>
#include <optional>
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
  /// Shards of the split part before exclusion. JoinPlace::shard is a position in this list.
  std::vector<std::string> shards = {};
  std::vector<std::int64_t> tar_file_ids = {};   ///< of each shard, in index.sqlite
  std::vector<std::int64_t> sample_counts = {};  ///< of each shard, by .info.json
  std::vector<std::string> excludes = {};        ///< expanded, sorted, without duplicates

  /// Whether the shard at this position is excluded as a whole.
  bool is_shard_excluded(std::size_t position) const;
};

struct JoinFiles {
  std::string index_path = {};  ///< need not exist
  std::vector<JoinSource> sources = {};
};

/// The paths of the datasets of a join, for read_committed(). Code that reads more than
/// locate_join() does must run inside read_committed().
std::vector<std::string> dataset_paths(const LeafReference& join);

/// Reads .info.json, the split file and index.uuid of each dataset. Requires: `join` is a leaf of
/// kind kJoin. Throws Error: kInvalidArgument if a dataset is not prepared, or its split part is
/// unknown or names a shard twice; kCorruptData, kIo.
JoinFiles locate_join(const LeafReference& join);

/// The number of rows that the index of this join must have: one for each sample of the first
/// dataset that is not excluded. Nothing if it is unknown: with nonmatch: skip only the join itself
/// knows what is skipped, and excluded samples are counted with index.sqlite, which may be missing.
std::optional<std::int64_t> expected_rows(const JoinFiles& files);

/// Throws Error as JoinIndex; kInvalidArgument, with the command to run, if the join is not
/// prepared; kCorruptData if the number of rows is not expected_rows().
JoinIndex open_join_index(const JoinFiles& files, const LeafReference& join);

}  // namespace energon
