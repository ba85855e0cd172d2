// Mixes several orders: by random draws, or in fixed shares without draws.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/order/order.h"
#include "energon/order/rng.h"
#include "energon/sample/sample_ref.h"
#include "wrappers/orders/pipeline_leaf.h"

namespace energon {

/// An order over several others that can return one more reference from a specific one of them.
///
/// A blend draws the next order before it is known whether the sample can be used. Energon draws
/// after cooking, so a sample skipped by a cooker does not change the mixture. Here, the next
/// reference of the same order replaces the sample, which gives the same mixture.
class Replacement {
 public:
  virtual ~Replacement() = default;

  /// The next reference of the order that yielded `left_out`, without a draw; nullopt if that order
  /// has ended. Requires: the order at position i yields the references of leaf i.
  virtual std::optional<SampleRef> replace(const SampleRef& left_out) = 0;

  /// Number of references in one pass over the order of `leaf`. After that many skipped references
  /// in a row, there is no replacement.
  virtual std::int64_t replaceable(std::uint32_t leaf) const = 0;
};

struct WeightedOrder {
  std::unique_ptr<Order> order;
  double weight = 1;  ///< positive; only the proportions count
};

/// Blends several orders by drawing from them by weight.
///
/// Each draw chooses an order by its weight and returns its next reference, with the same draws as
/// Energon's BlendDataset. An order that has ended, or has nothing on this logical shard, is no
/// longer drawn. The epoch ends when all orders have ended. With endless orders (weighted blends)
/// it never ends. With orders repeated a given number of times and weights proportional to their
/// lengths (epochized blends), every count is exact.
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

struct SharedOrder {
  std::unique_ptr<Order> order;
  double weight = 1;                ///< positive; only the proportions count
  LengthOfSample length = nullptr;  ///< of its references; unset means 1 each
};

/// Blends several orders in fixed shares, without random draws.
///
/// The next reference comes from the order whose share so far is furthest below its weight; among
/// equals, from the last. A function defines how much a reference counts, for example its tokens.
/// The shares then hold in tokens, while samples stay whole. The rule is the one in IBM's sampling
/// dataset (rescalable layers).
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
