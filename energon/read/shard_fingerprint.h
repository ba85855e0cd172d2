// Distinguishes the shards of two datasets whose names, counts and sizes are equal. Sizes are often
// equal because tars are padded to 10 KiB.

#pragma once

#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "io/dataset/dataset_folder.h"

namespace energon {

/// Thread-safe.
class ShardFingerprint {
 public:
  using Members = std::vector<std::pair<std::string, std::string>>;

  /// Returns "indexes", the digest of the index files, and, if all shards have checksum files,
  /// "checksums", the digest of those. Requires: `shards` is the same in each call. The first call
  /// reads these files, 8 bytes per sample each, except those whose digest is known.
  /// Broken shards contribute no digest. Throws Error if a file cannot be read; the next call tries
  /// again.
  const Members& of(std::span<const ShardFile> shards) const;

 private:
  mutable std::once_flag once_;
  mutable Members members_;
};

}  // namespace energon
