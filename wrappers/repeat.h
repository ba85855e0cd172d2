// Passes through an order several times, or for ever, within one epoch.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "energon/order.h"

namespace energon {

class Repeat final : public Order {
 public:
  /// Takes `inner`. `repetitions`: passes in one epoch, at least 1; nothing: for ever. An inner
  /// order that yields nothing in a whole pass ends the epoch, so that an empty share never spins.
  /// Throws Error (kInvalidArgument).
  Repeat(std::unique_ptr<Order> inner, std::optional<std::int64_t> repetitions);

  std::optional<SampleRef> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;

  const std::unique_ptr<Order> inner_;
  const std::optional<std::int64_t> repetitions_;

  // Saved state.
  std::int64_t repetition_ = 0;  // complete passes of this epoch
  bool pass_is_empty_ = true;    // nothing was yielded in the current pass
};

}  // namespace energon
