// A leaf dataset: the samples of one split of tars, addressed by their position.
//
// Positions number the samples of all tars of the split, one tar after another.
// energon/read/webdataset_reader.h reads them.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/order/sharder.h"
#include "energon/read/leaf_dataset.h"
#include "energon/read/shard_fingerprint.h"
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
  /// Maximum number of shards of this dataset that a process keeps open. If it is less than the
  /// number of shards in rotation (parallel slices times logical shards of a worker), files are
  /// reopened every few samples. Absent: as many as the limit on open files allows for all datasets
  /// together (energon/read/read_budgets.h).
  std::optional<std::size_t> open_shards = std::nullopt;
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
  std::span<const std::int64_t> shard_ends() const override { return shard_ends_; }
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

}  // namespace energon
