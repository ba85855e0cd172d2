// Blends several orders in fixed shares, without random draws.
//
// The next reference comes from the order whose share so far is furthest below its weight; among
// equals, from the last. A function says how much a reference counts, for example its tokens. The
// shares then hold in tokens, while samples stay whole. The rule is the one in IBM's sampling
// dataset (rescalable layers).

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "energon/order/order.h"
#include "wrappers/orders/pipeline_leaf.h"
#include "wrappers/orders/replacement.h"

namespace energon {

struct SharedOrder {
  std::unique_ptr<Order> order;
  double weight = 1;                ///< positive; only the proportions count
  LengthOfSample length = nullptr;  ///< of its references; absent: 1 each
};

class ShareBlend final : public Order, public Replacement {
 public:
  /// Takes ownership of `inners`, at least one. Throws Error (kInvalidArgument) for weights that
  /// are not positive and finite. next() throws the same for a length below 0.
  explicit ShareBlend(std::vector<SharedOrder> inners);

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
  std::optional<std::size_t> choose() const;
  std::int64_t length_of(std::size_t inner, const SampleRef& ref) const;

  const std::vector<SharedOrder> inners_;
  double weights_ = 0;  // their sum

  // Saved state.
  std::vector<std::int64_t> given_;      // total length taken from each order
  std::vector<std::int64_t> exhausted_;  // 1 for each order that has ended in this epoch
};

}  // namespace energon
