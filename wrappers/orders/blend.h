// Blends several orders by drawing from them by weight.
//
// Each draw chooses an order by its weight and returns its next reference, with the same draws as
// Energon's BlendDataset. An order that has ended, or has nothing on this logical shard, is no
// longer drawn. The epoch ends when all orders have ended. With endless orders (weighted blends) it
// never ends. With orders repeated a given number of times and weights proportional to their
// lengths (epochized blends), every count is exact.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "energon/order/order.h"
#include "energon/order/rng.h"
#include "wrappers/orders/replacement.h"

namespace energon {

struct WeightedOrder {
  std::unique_ptr<Order> order;
  double weight = 1;  ///< positive; only the proportions count
};

class Blend final : public Order, public Replacement {
 public:
  /// Takes ownership of `inners`, at least one. `seed` is the seed of the logical shard
  /// (worker_seed()). Throws Error (kInvalidArgument) for weights that are not positive and finite.
  Blend(std::vector<WeightedOrder> inners, std::uint32_t seed);

  std::optional<SampleRef> next() override;
  std::optional<SampleRef> replace(const SampleRef& left_out) override;
  std::int64_t replaceable(std::uint32_t leaf) const override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  bool list_ranges(std::vector<LeafRange>& ranges) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void update_weights();

  const std::vector<WeightedOrder> inners_;

  CumulativeWeights weights_;  // of the orders that have not ended; derived from exhausted_

  // Saved state.
  WorkerRng rng_;
  std::vector<std::int64_t> exhausted_;  // 1 for each order that has ended in this epoch
};

}  // namespace energon
