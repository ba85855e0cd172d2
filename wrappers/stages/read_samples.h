// Turns references into samples: the one place of a pipeline where bytes are read, after the order
// is settled.

#pragma once

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
#include "wrappers/orders/leaf_ranges.h"
#include "wrappers/orders/replacement.h"

namespace energon {

class ReadSamples final : public Dataset {
 public:
  /// Takes `order`, whose references name `leaves` by position. Parts are put into memory of
  /// `allocator`, which must outlive the stage. A policy that skips leaves out samples that cannot
  /// be read, and whole shards that cannot be opened; when so many in a row could not be read that
  /// all were among them (options.most_left_out, and at least as many as the leaves have), that is
  /// an Error whatever the policy says, and so is what the system refuses (kIo). `readers` may be
  /// shared with other pipelines of the thread.
  ReadSamples(std::unique_ptr<Order> order, std::vector<std::shared_ptr<const LeafDataset>> leaves,
              BufferAllocator& allocator, const StageOptions& options = {.name = "read"},
              const std::shared_ptr<LeafReaders>& readers = std::make_shared<LeafReaders>());

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  /// A sample in place of `left_out`, the last of `in_a_row` samples of its leaf that a later stage
  /// left out. `replacement` is part of the order. Nothing if there is none, or if a whole passage
  /// over the leaf was left out in a row, or 1,000 samples.
  std::optional<Sample> read_instead(Replacement& replacement, SampleRef left_out,
                                     std::int64_t in_a_row);
  void next_epoch() override { order_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return order_->size(); }
  std::int64_t skip(std::int64_t count) override { return order_->skip(count); }
  Sample restore_sample(const RestoreKey& key) override;
  /// A sample of this logical shard, as far as its order says where those lie.
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void read_run(std::uint32_t leaf, std::vector<Sample>& samples);
  void read_one_by_one(std::uint32_t leaf, std::vector<Sample>& samples);
  bool is_known_broken(std::uint32_t leaf, std::int64_t index);
  void count_unread();
  SampleRef place_of(const RestoreKey& key) const;

  const std::unique_ptr<Order> order_;
  const std::vector<std::shared_ptr<const LeafDataset>> leaves_;
  std::vector<std::shared_ptr<LeafReader>> readers_;
  BufferAllocator& allocator_;
  StageGuard guard_;

  std::vector<std::int64_t>
      indexes_;  // of the references read together; kept to save an allocation
  std::set<std::pair<std::uint32_t, std::int64_t>> broken_files_;  // leaf, file
  std::int64_t most_unread_;  // in a row, before it is an error
  std::int64_t unread_in_a_row_ = 0;
  mutable std::optional<LeafRanges> ranges_;  // of the order; set once a key is checked
};

}  // namespace energon
