// What tells the shards of two datasets apart whose names, counts and sizes are equal: a tar is
// padded to 10 KiB.

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

  /// Of `shards`, the same at each call: "indexes", the digest of their index files, and
  /// "checksums", that of their checksum files where all have one. Reads those files at the first
  /// call, 8 bytes a sample each, but indexes whose digest prepare recorded. Broken shards count as
  /// none. Throws Error if a file cannot be read; the next call tries again.
  const Members& of(std::span<const ShardFile> shards) const;

 private:
  mutable std::once_flag once_;
  mutable Members members_;
};

}  // namespace energon
