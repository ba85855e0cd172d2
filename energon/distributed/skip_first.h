// Passes over the first batches of the pass that is running or about to begin; later ones are
// whole.
//
// It is for continuing without a state, by a count of steps alone. A state says more and costs less
// to restore; a state of this adapter knows what was skipped, so nothing is skipped twice.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/distributed/adapter.h"

namespace energon {

/// For one thread at a time.
class SkipFirst final : public Adapter {
 public:
  /// Takes part in `source`. Draws nothing yet. Throws Error (kInvalidArgument) for a negative
  /// count.
  SkipFirst(std::shared_ptr<Adapter> source, std::int64_t count);

  std::optional<Sample> next() override;
  State save_state() override;
  void restore_state(const State& state) override;
  void stop() override { source_->stop(); }
  std::vector<std::string> warnings() const override { return source_->warnings(); }
  /// Of the pass that is shortened, until its end.
  std::optional<std::int64_t> size() override;
  std::int64_t skip(std::int64_t count) override;
  std::int64_t epoch() const override { return source_->epoch(); }
  void set_epoch(std::int64_t epoch) override { source_->set_epoch(epoch); }
  std::optional<std::int64_t> remainder() const override { return source_->remainder(); }
  Config common_settings() override;
  Sample restore_sample(const RestoreKey& key) override { return source_->restore_sample(key); }
  bool end_of_dataloader() override { return source_->end_of_dataloader(); }
  void end() override { source_->end(); }

 private:
  std::optional<Sample> ended(std::optional<Sample> batch);

  const std::shared_ptr<Adapter> source_;

  // Saved state.
  std::int64_t shortened_by_ = 0;  // this pass
  std::int64_t left_ = 0;          // of it, still to be skipped
};

/// `source` without the first `count` batches of this pass. Throws as SkipFirst.
std::shared_ptr<SkipFirst> skip_first_batches(std::shared_ptr<Adapter> source, std::int64_t count);

}  // namespace energon
