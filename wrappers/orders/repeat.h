// Concatenates orders: repeats one order, or appends several.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "energon/order/order.h"

namespace energon {

/// Repeats an order within one epoch: several times, a fraction of a time, or forever.
class Repeat final : public Order {
 public:
  /// Takes ownership of `inner`. `repetitions` is the number of passes in one epoch, positive;
  /// nullopt means forever. With a fraction, such as 2.7, the last pass stops after int(0.7 * n)
  /// references, as in Energon, where n is the samples_per_pass() of `inner`; the next epoch begins
  /// a new pass. If a whole pass of `inner` yields nothing, the epoch ends, so that an empty share
  /// never loops. Throws Error (kInvalidArgument), also for a fraction of an order that never ends.
  Repeat(std::unique_ptr<Order> inner, std::optional<double> repetitions);

  std::optional<SampleRef> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> samples_per_pass() const override {
    return inner_->samples_per_pass();
  }
  bool list_ranges(std::vector<LeafRange>& ranges) const override {
    return inner_->list_ranges(ranges);
  }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool is_last_pass_over() const;

  const std::unique_ptr<Order> inner_;
  const std::optional<double> repetitions_;
  std::int64_t whole_passes_ = 0;      // in an epoch; unused without repetitions_
  std::int64_t last_pass_length_ = 0;  // of the partial pass after those; 0 if there is none

  // Saved state.
  std::int64_t repetition_ = 0;  // complete passes of this epoch
  std::int64_t taken_ = 0;       // references of this pass
};

/// Concatenates several orders.
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
