// Leaves out the samples and shards that quarantine files name. Private to io.

#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "io/dataset/dataset_folder.h"

namespace energon {

/// Samples that quarantine files name.
struct QuarantinedSamples {
  std::vector<std::pair<std::string, std::int64_t>> places;  ///< shard name, index in the shard
  std::vector<std::pair<std::string, std::string>> keys;     ///< shard name, key

  /// The keys as "shard/key", for resolve_excludes().
  std::vector<std::string> entries() const;
};

/// Reads `files` and removes the whole shards that they name from `set`, whose shards need not be
/// open. Returns the single samples that they name. Throws Error as read_quarantine();
/// kInvalidArgument if no shard is left.
QuarantinedSamples take_quarantined(const std::vector<std::string>& files, ShardSet& set);

/// Adds the samples that are named by index to set.excludes; one that does not exist becomes a
/// warning.
void exclude_by_index(const QuarantinedSamples& quarantined, ShardSet& set);

}  // namespace energon
