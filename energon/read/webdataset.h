// A leaf dataset: the samples of one split of tars, addressed by their position.
//
// Positions number the samples of all tars of the split, one tar after another. A WebdatasetReader
// reads a sample with one pread of its byte range; its tar headers are then parsed in memory.
// Adjacent samples that are requested together are read together (energon/read/batch_layout.h).
// Small samples of a slice are read ahead (energon/read/read_ahead.h).

#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/order/sharder.h"
#include "energon/read/leaf_dataset.h"
#include "energon/read/read_helper.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/dataset/dataset_folder.h"

namespace energon {

// Distinguishes the shards of two datasets whose names, counts and sizes are equal. Sizes are often
// equal because tars are padded to 10 KiB.

/// Thread-safe.
class ShardFingerprint {
 public:
  using Members = std::vector<std::pair<std::string, std::string>>;

  /// Returns "indexes", the digest of the index files, and, if all shards have checksum files,
  /// "checksums", their digest. Requires: `shards` is the same in each call. The first call reads
  /// these files (8 bytes per sample each) unless their digest is known.
  /// Broken shards contribute no digest. Throws Error if a file cannot be read; the next call
  /// retries.
  const Members& of(std::span<const ShardFile> shards) const;

 private:
  mutable std::once_flag once_;
  mutable Members members_;
};

/// Which samples of a shard with checksums are verified on reading.
enum class VerifyChecksums : std::uint8_t {
  kAlways,
  kSampled,  ///< every 16th sample by position: 1/16 of the cost, finds damage of whole shards
  kOff,
};

struct WebdatasetOptions {
  VerifyChecksums verify_checksums = VerifyChecksums::kAlways;
  /// Maximum number of shards of this dataset that a process keeps open. If it is less than the
  /// number of shards in rotation (parallel slices times logical shards of a worker), files are
  /// reopened every few samples. Unset means as many as the limit on open files allows for all
  /// datasets together (energon/read/leaf_readers.h).
  std::optional<std::size_t> open_shards = std::nullopt;
  /// A sample with more bytes than this (headers included) is an error instead of a huge
  /// allocation.
  std::uint64_t max_sample_bytes = std::uint64_t{1} << 36;
  /// A JSON object, stored in the source of every sample.
  std::string subflavors = "{}";
  /// The parts that samples include; others are skipped. Unset means all parts.
  std::optional<std::vector<std::string>> part_filter = std::nullopt;
  /// What makes samples of the parts, for config(): a class of the program. Empty if it is nothing
  /// outside the pipeline.
  std::string loaded_by = {};
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
  std::span<const std::int64_t> shard_ends() const override { return shard_ends_; }
  std::int64_t sample_count() const override {
    return shard_ends_.empty() ? 0 : shard_ends_.back();
  }
  /// Positions of the excluded samples, ascending.
  const std::vector<std::int64_t>& excluded() const override { return excluded_; }
  const std::vector<std::int64_t>& excluded_in_place() const override { return excluded_in_place_; }
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
  /// The position of sample `index`. Throws Error (kInvalidArgument) if the sample does not exist.
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
  std::vector<std::int64_t> excluded_in_place_;
  std::vector<std::shared_ptr<const SourceShard>> sources_;
  ShardFingerprint fingerprint_;
};

class FileSource;
class ReadAhead;
class ShardCache;
class ReadRound;
struct BatchLayout;
struct PieceRun;
struct SamplePiece;

/// Reads samples of a Webdataset by their position. Not thread-safe. Shared by the pipelines of a
/// process (energon/read/leaf_readers.h).
class WebdatasetReader final : public LeafReader {
 public:
  explicit WebdatasetReader(std::shared_ptr<const Webdataset> dataset);
  WebdatasetReader(WebdatasetReader&&) noexcept;
  ~WebdatasetReader() override;

  void share_reads(const std::shared_ptr<ReadHelper>& helper) override { helper_ = helper; }
  void share_budgets(const ReadBudgets& budgets) override;
  void read(std::span<const std::int64_t> indexes, BufferAllocator& allocator,
            std::vector<Sample>& samples) override;
  void read_in_share(std::span<const std::int64_t> indexes, const LeafShare& share,
                     BufferAllocator& allocator, std::vector<Sample>& samples) override;
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
  void read(std::span<const std::int64_t> indexes, const LeafShare* share,
            BufferAllocator& allocator, std::vector<Sample>& samples);
  void locate(std::span<const std::int64_t> indexes);
  void locate(SamplePiece& piece, bool verify);
  void read_runs(const LeafShare* share, BufferAllocator& allocator, std::span<Sample> samples);
  ByteView read_ahead(const PieceRun& run, const LeafShare& share, ReadRound& round);
  void parse_ahead(const PieceRun& run, ByteView bytes, std::span<Sample> samples);
  Sample parse(const SamplePiece& piece, ByteView bytes);
  void check_boundaries(std::span<const Sample> samples);

  const std::shared_ptr<const Webdataset> dataset_;
  std::unique_ptr<ShardCache> shards_;
  std::unique_ptr<ReadAhead> ahead_;
  std::shared_ptr<ReadHelper> helper_;  // null if the reader reads alone
  // Buffers for the current batch, reused to save allocations.
  std::unique_ptr<BatchLayout> layout_;
  std::vector<Buffer> buffers_;
  std::size_t usual_parts_ = 0;  // fields of the last sample
};

}  // namespace energon
