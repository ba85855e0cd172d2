// A leaf dataset: the samples of one split of tars, addressed by their position.
//
// Positions number the samples of all tars of the split, one tar after another. A sample is read
// with one pread of its byte range; its tar headers are then parsed in memory. Adjacent samples
// that are requested together are read together.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/order/sharder.h"
#include "energon/read/leaf_dataset.h"
#include "energon/read/read_helper.h"
#include "energon/read/shard_cache.h"
#include "energon/read/shard_fingerprint.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/dataset/dataset_folder.h"

namespace energon {

/// Which samples of a shard with checksums are verified on reading.
enum class VerifyChecksums : std::uint8_t {
  kAlways,
  kSampled,  ///< every 16th sample by position: 1/16 of the cost, finds what is wrong with a whole
             ///< shard
  kOff,
};

struct WebdatasetOptions {
  VerifyChecksums verify_checksums = VerifyChecksums::kAlways;
  /// Number of shards that a reader keeps open. Should exceed the number of parallel slices;
  /// otherwise every sample opens a file.
  std::size_t open_shards = 128;
  /// A sample with more bytes than this (headers included) is an error instead of a huge
  /// allocation.
  std::uint64_t max_sample_bytes = std::uint64_t{1} << 36;
  /// A JSON object, stored in the source of every sample.
  std::string subflavors = "{}";
  /// The parts that samples include; others are skipped. Absent: all parts.
  std::optional<std::vector<std::string>> part_filter = std::nullopt;
};

/// The dataset that a job reads. Immutable; shared by the pipelines of all workers. Holds no file
/// descriptors.
class Webdataset final : public LeafDataset, public std::enable_shared_from_this<Webdataset> {
 public:
  explicit Webdataset(ShardSet shards, const WebdatasetOptions& options = {});

  const ShardSet& shards() const { return shards_; }
  const WebdatasetOptions& options() const { return options_; }
  /// Number of samples in each tar, in order.
  const std::vector<std::int64_t>& shard_counts() const override { return shard_counts_; }
  std::int64_t sample_count() const override {
    return shard_ends_.empty() ? 0 : shard_ends_.back();
  }
  /// Positions of the excluded samples, ascending.
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  /// Whether samples include `part` (WebdatasetOptions::part_filter).
  bool has_part(std::string_view part) const;
  /// Identity of the data for saved states: names, counts and sizes of all shards, and digests of
  /// the exclusions, the index files and the checksum files. The first call reads the index and
  /// checksum files.
  Config config() const override;
  /// Requires that a shared_ptr owns the dataset.
  std::unique_ptr<LeafReader> open_reader() const override;

  struct Position {
    std::int64_t shard;
    std::int64_t sample;  ///< in that shard
  };
  /// The position of sample `index`. Throws Error (kInvalidArgument) if there is no such sample.
  Position position_of(std::int64_t index) const;
  /// Index of the first sample of a tar.
  std::int64_t first_of_shard(std::int64_t shard) const {
    return shard == 0 ? 0 : shard_ends_[static_cast<std::size_t>(shard) - 1];
  }
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
  ShardFingerprint fingerprint_;
};

/// Reads samples of a Webdataset. Not thread-safe. Shared by the pipelines of a process
/// (energon/read/leaf_readers.h).
class WebdatasetReader final : public LeafReader {
 public:
  explicit WebdatasetReader(std::shared_ptr<const Webdataset> dataset);

  void share_reads(const std::shared_ptr<ReadHelper>& helper) override { helper_ = helper; }
  void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
            std::vector<Sample>& samples) override;
  FailedSample describe(std::int64_t index) override;
  /// A file is a tar; its number is the position of the tar.
  std::optional<std::int64_t> broken_file(std::int64_t index) override;
  bool needs_file(std::int64_t index, std::int64_t file) const override {
    return dataset_->position_of(index).shard == file;
  }

  /// Whether the tar at this position can be opened. Throws Error (kIo) if opening fails for a
  /// reason other than the shard.
  bool can_open_shard(std::int64_t shard);
  /// The index of the sample whose range in the tar is `bytes`. Throws Error (kCorruptData) if
  /// there is none.
  std::int64_t index_at(std::int64_t shard, const ByteRange& bytes);

 private:
  struct Piece;
  struct Run;

  std::vector<Piece> locate(std::span<const std::int64_t> indexes);
  std::vector<Buffer> read_runs(std::span<const Run> runs,
                                const std::vector<std::size_t>& buffer_sizes,
                                BufferAllocator& allocator);
  Sample parse(const Piece& piece, const Buffer& buffer) const;
  void check_boundaries(std::span<const Piece> pieces, std::span<const std::size_t> by_place,
                        std::span<const Sample> samples);

  const std::shared_ptr<const Webdataset> dataset_;
  ShardCache cache_;
  std::shared_ptr<ReadHelper> helper_;  // null: reads alone
};

}  // namespace energon
