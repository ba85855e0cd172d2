// A cache of open shards: descriptors, indexes and checksums of the most recently read tars.

#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>

#include "energon/read/sample_boundaries.h"
#include "io/dataset/dataset_folder.h"
#include "io/file_source.h"
#include "io/index/checksum_file.h"
#include "io/index/tar_index.h"

namespace energon {

struct OpenShard {
  FileSource tar;
  TarIndex index;
  std::optional<ChecksumFile> checksums;  ///< nullopt: prepared without checksums, or not requested
  /// Null if prepare() recorded the digest of the index.
  std::unique_ptr<SampleBoundaries> boundaries;
};

/// Closes the least recently used shards first. Not thread-safe. Used only after the fork, so that
/// no two processes share descriptors.
class ShardCache {
 public:
  /// `shards` must outlive the cache. At most `capacity` shards, at least 1, stay open. Each takes
  /// one descriptor and 8 to 16 bytes per sample.
  ShardCache(const std::vector<ShardFile>& shards, std::size_t capacity, bool with_checksums);

  /// Returns the open shard. The reference is valid until `capacity` other shards have been opened.
  /// Throws Error: kNotFound, kIo; kCorruptData if the shard is not the one that was indexed
  /// (different file, size or number of samples).
  const OpenShard& open(std::int64_t shard);
  std::size_t capacity() const { return capacity_; }

 private:
  struct Entry {
    std::int64_t shard;
    OpenShard open;
  };

  const std::vector<ShardFile>& shards_;
  const std::size_t capacity_;
  const bool with_checksums_;

  std::list<Entry> entries_;  // most recently used first
  std::unordered_map<std::int64_t, std::list<Entry>::iterator> by_shard_;
};

}  // namespace energon
