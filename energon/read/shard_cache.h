// Open shards: descriptor, index and checksums of the tars that were read last.

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
  std::optional<ChecksumFile>
      checksums;  ///< nothing: the shard was prepared without, or they are not wanted
  /// Null: a record of prepare() vouches for the index.
  std::unique_ptr<SampleBoundaries> boundaries;
};

/// Least recently used shards are closed first. Not thread-safe; used after the fork only, so that
/// no two processes share descriptors.
class ShardCache {
 public:
  /// `shards` must outlive the cache. `capacity` shards, at least 1, stay open: one descriptor and
  /// 8 to 16 bytes a sample each.
  ShardCache(const std::vector<ShardFile>& shards, std::size_t capacity, bool with_checksums);

  /// The open shard; valid until `capacity` other shards were asked for. Throws Error: kNotFound,
  /// kIo; kCorruptData if the shard is not the one that was indexed (another file, another size,
  /// another number of samples).
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
