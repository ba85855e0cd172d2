// Concatenates several orders.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "energon/order/order.h"

namespace energon {

class Concat final : public Order {
 public:
  /// Takes ownership of `inners`, at least one. Throws Error (kInvalidArgument).
  explicit Concat(std::vector<std::unique_ptr<Order>> inners);

  std::optional<SampleRef> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  bool list_ranges(std::vector<LeafRange>& ranges) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;

  const std::vector<std::unique_ptr<Order>> inners_;

  // Saved state.
  std::int64_t current_ = 0;  // inners_.size() at the end of the epoch
};

}  // namespace energon
