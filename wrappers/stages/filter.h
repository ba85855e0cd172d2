// Keeps the samples that a predicate accepts. Rejected samples are not failures and are not counted
// as such.

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

/// Runs in the worker. The context has the sample's own key; its random numbers depend on the name
/// of the stage and on the sample.
using FilterFunction = std::function<bool(const Sample& sample, CallContext& context)>;

class Filter final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument) without a function. Rejected
  /// samples count towards options.most_left_out, because in an endless epoch a filter that keeps
  /// nothing would search forever.
  Filter(std::unique_ptr<Dataset> inner, FilterFunction function, const StageOptions& options);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override { inner_->next_epoch(); }
  /// Not known in advance.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  /// Keys pass through; the predicate is not called again.
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
  const CallResources resources_;  // with a seed of their own for its draws
  StageGuard guard_;

  // Saved state.
  std::int64_t calls_ = 0;
};

}  // namespace energon
