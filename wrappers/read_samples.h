// Turns references into samples: the one place of a pipeline where bytes are read, after the order
// is settled.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "energon/buffer_allocator.h"
#include "energon/dataset.h"
#include "energon/order.h"
#include "energon/webdataset/webdataset.h"

namespace energon {

class ReadSamples final : public Dataset {
 public:
  /// Takes `order`, whose references name `leaves` by position. Parts are put into memory of
  /// `allocator`, which must outlive the stage.
  ReadSamples(std::unique_ptr<Order> order, std::vector<std::shared_ptr<const Webdataset>> leaves,
              BufferAllocator& allocator);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override { order_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return order_->size(); }
  std::int64_t skip(std::int64_t count) override { return order_->skip(count); }
  Sample restore_sample(const RestoreKey& key) override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void read(std::uint32_t leaf, std::vector<Sample>& samples);

  const std::unique_ptr<Order> order_;
  std::vector<WebdatasetReader> leaves_;
  BufferAllocator& allocator_;

  std::vector<std::int64_t>
      indexes_;  // of the references read together; kept to save an allocation
};

}  // namespace energon
