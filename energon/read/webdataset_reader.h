// Reads samples of a Webdataset by their position.
//
// A sample is read with one pread of its byte range; its tar headers are then parsed in memory.
// Adjacent samples that are requested together are read together (energon/read/batch_layout.h).
// Small samples of a slice are read ahead (energon/read/read_ahead.h).

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "energon/read/leaf_dataset.h"
#include "energon/read/read_helper.h"
#include "energon/read/webdataset.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

class FileSource;
class ReadAhead;
class ShardCache;
class ReadRound;
struct BatchLayout;
struct PieceRun;
struct SamplePiece;

/// Not thread-safe. Shared by the pipelines of a process (energon/read/leaf_readers.h).
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
  std::shared_ptr<ReadHelper> helper_;  // null: reads alone
  // Of the batch that is read; kept to save allocations.
  std::unique_ptr<BatchLayout> layout_;
  std::vector<Buffer> buffers_;
  std::size_t usual_parts_ = 0;  // fields of the last sample
};

}  // namespace energon
