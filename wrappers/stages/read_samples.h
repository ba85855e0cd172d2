// Turns references into samples. This is the only place in a pipeline that reads bytes, after the
// order is decided.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "energon/order/order.h"
#include "energon/read/leaf_dataset.h"
#include "energon/read/leaf_readers.h"
#include "energon/sample/buffer_allocator.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/orders/blend.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

/// Memory for the small samples that different readers read for one batch: carves small buffers
/// from larger ones, so that a batch over many datasets takes few buffers.
class CommonBuffers final : public BufferAllocator {
 public:
  static constexpr std::size_t kLargestPart = std::size_t{16} << 10;
  static constexpr std::size_t kBufferBytes = std::size_t{128} << 10;

  /// `buffers` must outlive this object.
  explicit CommonBuffers(BufferAllocator& buffers) : buffers_(buffers) {}

  Buffer allocate(std::size_t size) override;
  /// Releases its buffer: a batch may be sent without a copy if nothing else holds its buffers.
  void end_batch() { rest_ = {}; }

 private:
  BufferAllocator& buffers_;
  Buffer rest_;  // rest of the current larger buffer
};

class ReadSamples final : public Dataset {
 public:
  /// Takes ownership of `order`, whose references name `leaves` by position. Parts are stored in
  /// memory of `allocator`, which must outlive the stage. Samples that
  /// LeafDataset::excluded_in_place() lists are drawn and left out unread, and counted as skipped;
  /// restore_sample() still reads them. If all samples of an order without an end are excluded,
  /// next() throws Error (kInvalidArgument). A skipping policy skips samples that cannot be read,
  /// and whole shards that cannot be opened. Regardless of the policy, next() throws Error if too
  /// many samples in a row cannot be read (the larger of options.most_left_out and the number of
  /// samples in all leaves), and for errors of the system (kIo). `readers` may be shared with other
  /// pipelines of the same thread.
  ReadSamples(std::unique_ptr<Order> order, std::vector<std::shared_ptr<const LeafDataset>> leaves,
              BufferAllocator& allocator, const StageOptions& options = {.name = "read"},
              const std::shared_ptr<LeafReaders>& readers = std::make_shared<LeafReaders>());

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  /// Reads a sample to replace `left_out`, the last of `in_a_row` consecutive samples of its leaf
  /// that a later stage skipped. `replacement` is part of the order. Nullopt if there is no
  /// replacement, or if a whole pass over the leaf, or 1,000 samples, were skipped in a row.
  std::optional<Sample> read_instead(Replacement& replacement, SampleRef left_out,
                                     std::int64_t in_a_row);
  void next_epoch() override { order_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return order_->size(); }
  std::int64_t skip(std::int64_t count) override { return order_->skip(count); }
  bool skip_makes_items() const override { return false; }
  Sample restore_sample(const RestoreKey& key) override;
  /// Throws Error (kInvalidArgument) unless `key` refers to a sample of this logical shard, as far
  /// as the order reports its ranges.
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void read_run(std::uint32_t leaf, BufferAllocator& allocator, std::vector<Sample>& samples);
  void read_one_by_one(std::uint32_t leaf, std::vector<Sample>& samples);
  bool is_excluded(std::uint32_t leaf, std::int64_t index);
  void check_has_samples();
  bool is_known_broken(std::uint32_t leaf, std::int64_t index);
  void count_unread();
  SampleRef place_of(const RestoreKey& key) const;
  const LeafRanges& ranges() const;

  const std::unique_ptr<Order> order_;
  const std::vector<std::shared_ptr<const LeafDataset>> leaves_;
  std::vector<std::shared_ptr<LeafReader>> readers_;
  BufferAllocator& allocator_;
  CommonBuffers common_;  // allocates from allocator_
  StageGuard guard_;

  std::vector<Sample> one_;            // result of next(); reused to save allocations
  std::vector<std::int64_t> indexes_;  // of references read together; reused to save allocations
  std::set<std::pair<std::uint32_t, std::int64_t>> broken_files_;  // leaf, file
  std::int64_t most_unread_;  // this many unreadable samples in a row are an error
  std::int64_t unread_in_a_row_ = 0;
  bool has_excluded_ = false;       // whether a leaf excludes samples in place
  std::int64_t most_excluded_ = 0;  // the same for excluded samples, if the order does not end
  std::int64_t excluded_in_a_row_ = 0;
  bool has_samples_ = false;                  // whether check_has_samples() found one
  mutable std::optional<LeafRanges> ranges_;  // of the order; set by ranges()
};

}  // namespace energon
