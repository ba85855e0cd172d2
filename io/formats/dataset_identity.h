// What a saved state remembers of its data, so that it is not restored onto other data.
//
// A fingerprint answers whether two sets of shards are the same; the identities of the shards, how
// they differ. Neither depends on where the data lies, nor on its modification times.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/formats/dataset_folder.h"

namespace energon {

struct ShardIdentity {
  std::string name;
  std::int64_t sample_count = 0;
  std::uint64_t index_digest = 0;  ///< TarIndex::digest()

  bool operator==(const ShardIdentity&) const = default;
};

/// Reads every index file once. Throws Error as TarIndex::load().
std::vector<ShardIdentity> shard_identities(const ShardSet& set);

/// Of the names, counts and indices of all shards in order, and of the excluded samples. Equal for
/// equal data in another folder.
std::uint64_t fingerprint(const ShardSet& set);
std::uint64_t fingerprint(const std::vector<ShardIdentity>& shards,
                          const std::vector<SampleExclude>& excludes);

/// One sentence per difference; empty if `saved` and `current` are equal.
std::vector<std::string> differences(const std::vector<ShardIdentity>& saved,
                                     const std::vector<ShardIdentity>& current);

}  // namespace energon
