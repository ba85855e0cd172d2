// Yields the references of an order in random sequence, drawn from a buffer of bounded size.
//
// The buffer is filled to its size before each draw until the inner order ends; then it is drained.
// The draws are the same as Energon's: randbelow() gives the position, and the other references
// keep their order.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "energon/order/order.h"
#include "energon/order/rng.h"
#include "wrappers/orders/indexed_list.h"

namespace energon {

class ShuffleBuffer final : public Order {
 public:
  /// Takes ownership of `inner`. Buffers `size` references (16 bytes each), at least 1. `seed` is
  /// worker_seed(). Throws Error (kInvalidArgument).
  ShuffleBuffer(std::unique_ptr<Order> inner, std::int64_t size, std::uint32_t seed);

  std::optional<SampleRef> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  bool list_ranges(std::vector<LeafRange>& ranges) const override {
    return inner_->list_ranges(ranges);
  }
  bool has_runs() const override { return false; }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void check_references(std::span<const SampleRef> refs,
                        std::vector<std::string>& differences) const;

  const std::unique_ptr<Order> inner_;
  const std::int64_t size_;

  // Saved state.
  WorkerRng rng_;
  IndexedList<SampleRef> buffer_;
};

}  // namespace energon
