// Keeps the samples that a predicate accepts. Others are nobody's failure and are not counted.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"

namespace energon {

/// Runs in the worker. The context's key is the sample's own; its random numbers are those of the
/// stage's name and the sample.
using FilterFunction = std::function<bool(const Sample& sample, CallContext& context)>;

class Filter final : public Dataset {
 public:
  /// Takes `inner`. Throws Error (kInvalidArgument) without a function. What it does not keep
  /// counts as left out (options.most_left_out): in an epoch without end a filter that keeps
  /// nothing would search for ever.
  Filter(std::unique_ptr<Dataset> inner, FilterFunction function, const StageOptions& options);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override { inner_->next_epoch(); }
  /// Not known beforehand.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  /// Keys pass through; the predicate is not asked again.
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool keeps(const Sample& sample);

  const std::unique_ptr<Dataset> inner_;
  const FilterFunction function_;
  const std::uint32_t seed_;
  const std::uint32_t draw_seed_;
  StageGuard guard_;

  // Saved state.
  std::int64_t calls_ = 0;
};

}  // namespace energon
