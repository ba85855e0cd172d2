// Skips the first batches of the current or next pass over the data; later passes are complete.
//
// For continuing from a step count alone, without a saved state. A state has more information and
// is cheaper to restore. The state of this adapter records what was skipped, so nothing is skipped
// twice.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "protocols/accelerate/adapter.h"

namespace energon {

/// For one thread at a time.
class SkipFirst final : public ForwardingAdapter<Adapter> {
 public:
  /// Shares ownership of `source`. Draws nothing yet. Throws Error (kInvalidArgument) for a
  /// negative count.
  SkipFirst(std::shared_ptr<Adapter> source, std::int64_t count);

  std::optional<Sample> next() override;
  SavableDataLoaderState save_state_rank() override;
  void restore_state_rank(const SavableDataLoaderState& state) override;
  /// Number of batches in the shortened pass until that pass ends; then in a complete one.
  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> batches_left() const override;
  std::int64_t skip(std::int64_t count) override;
  bool end_of_dataloader() override { return source_->end_of_dataloader(); }

 private:
  std::optional<Sample> ended(std::optional<Sample> batch);

  // Saved state.
  std::int64_t shortened_by_ = 0;  // in this pass
  std::int64_t left_ = 0;          // batches still to skip
};

/// `source` without the first `count` batches of this pass. Throws like SkipFirst.
std::shared_ptr<SkipFirst> skip_first_batches(std::shared_ptr<Adapter> source, std::int64_t count);

}  // namespace energon
