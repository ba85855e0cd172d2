// Sorts samples by a cost, such as their length, so that neighbors in the stream cost about the
// same: batches need little padding, and ranks wait less for each other.
//
// The stage reads a pool of `pool_size` samples, delivers them from the lowest cost to the highest,
// then reads the next pool. Samples of equal cost keep their order. At the end of the epoch the
// last pool is smaller, and the next epoch starts with a new one.
//
// A state has the keys of the samples that are still to be delivered, in order. After a restore
// they are rebuilt when needed, and their costs are not computed again.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/buffers/combine.h"

namespace energon {

/// Runs in the worker. The cost of a sample in any unit. NaN is an Error (kInvalidArgument), which
/// the stage's policy handles. Must depend only on the sample and the context; random numbers of
/// the context depend on the name of the stage and on the sample. A function that needs no context
/// may take only the sample.
using CostFunction = ContextFunction<double(const Sample& sample)>;

struct SortPoolOptions {
  CostFunction cost = nullptr;
  /// Number of samples that are sorted together; from 1 to 2^24.
  std::int64_t pool_size = 1000;
  /// Deliver from the highest cost to the lowest.
  bool descending = false;
  /// Limit on the payload kept in the pool; samples beyond it are read again when they are
  /// delivered.
  std::uint64_t max_held_bytes = kMaxHeldBytes;
  StageOptions stage = {.name = "cost"};
};

class SortPool final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument).
  SortPool(std::unique_ptr<Dataset> inner, SortPoolOptions options);

  /// After an Error of `inner` or `cost`, the samples of the unfinished pool are lost.
  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override;
  /// Includes samples that a policy will skip, because their number is unknown in advance.
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  /// Reads the pools, but rebuilds none of their samples.
  std::int64_t skip(std::int64_t count) override;
  /// Keys pass through; the cost is not computed again.
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool fill();
  std::vector<double> read_pool();
  std::optional<double> cost_of(const Sample& sample);
  void sort(std::span<const double> costs);

  const std::unique_ptr<Dataset> inner_;
  const SortPoolOptions options_;
  const CallResources resources_;  // with a separate seed for the draws of `cost`
  StageGuard guard_;
  PayloadBudget budget_;

  // Saved state.
  std::int64_t calls_ = 0;  // of `cost` so far, including failed ones
  SampleBuffer pool_;       // samples still to be delivered, in order
};

}  // namespace energon
