// A leaf dataset: the samples of one split of tars, addressed by their position.
//
// The tars of the split are laid end to end; sample i of that row is read with one pread of its
// byte range, whose headers are then walked in memory. Neighbours that are asked for together are
// read together.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "energon/buffer_allocator.h"
#include "energon/sample.h"
#include "energon/savable.h"
#include "energon/sharder.h"
#include "energon/webdataset/shard_cache.h"
#include "io/formats/dataset_folder.h"

namespace energon {

/// Which samples of a shard with checksums are verified when they are read.
enum class VerifyChecksums : std::uint8_t {
  kAlways,
  kSampled,  ///< every 16th sample by position: 1/16 of the cost, finds what is wrong with a whole
             ///< shard
  kOff,
};

struct WebdatasetOptions {
  VerifyChecksums verify_checksums = VerifyChecksums::kAlways;
  /// Shards that a reader keeps open. Above the number of parallel slices, or every sample opens a
  /// file.
  std::size_t open_shards = 128;
  /// A sample with more bytes than this (headers included) is an error, not an allocation.
  std::uint64_t max_sample_bytes = std::uint64_t{1} << 36;
};

/// What a job reads: immutable, shared by the pipelines of all workers. Holds no descriptors.
class Webdataset {
 public:
  explicit Webdataset(ShardSet shards, const WebdatasetOptions& options = {});

  const ShardSet& shards() const { return shards_; }
  const WebdatasetOptions& options() const { return options_; }
  /// Samples in each tar, in order.
  const std::vector<std::int64_t>& shard_counts() const { return shard_counts_; }
  std::int64_t sample_count() const { return shard_ends_.empty() ? 0 : shard_ends_.back(); }
  /// Positions of the excluded samples, ascending.
  const std::vector<std::int64_t>& excluded() const { return excluded_; }
  /// Identity of the data for saved states: names, counts and sizes of all shards, digest of the
  /// exclusions.
  Config config() const;

  struct Position {
    std::int64_t shard;
    std::int64_t sample;  ///< in that shard
  };
  /// Where sample `index` lies. Throws Error (kInvalidArgument) if there is none.
  Position position_of(std::int64_t index) const;
  const std::shared_ptr<const SourceShard>& source(std::int64_t shard) const {
    return sources_[static_cast<std::size_t>(shard)];
  }

 private:
  const ShardSet shards_;
  const WebdatasetOptions options_;
  std::vector<std::int64_t> shard_counts_;
  std::vector<std::int64_t> shard_ends_;  // cumulative counts
  std::vector<std::int64_t> excluded_;
  std::vector<std::shared_ptr<const SourceShard>> sources_;
};

/// Reads samples of a Webdataset. Not thread-safe; one per pipeline.
class WebdatasetReader {
 public:
  explicit WebdatasetReader(std::shared_ptr<const Webdataset> dataset);

  /// Appends the samples at `indexes`, in that order, without restore keys. Their parts lie in
  /// buffers of `allocator`. Throws Error with shard, byte and key: kCorruptData, kIo, kNotFound.
  void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
            std::vector<Sample>& samples);

  const Webdataset& dataset() const { return *dataset_; }

 private:
  struct Piece;

  std::vector<Piece> locate(std::span<const std::int64_t> indexes);
  Sample parse(const Piece& piece, const Buffer& buffer) const;

  const std::shared_ptr<const Webdataset> dataset_;
  ShardCache cache_;
};

}  // namespace energon
