// The order of one leaf dataset on one logical shard: which slice is read next, and when the slices
// are reshuffled.
//
// A logical shard owns slices (energon/order/sharder.h). An epoch passes through all of them once.
// Up to `parallel_slices` slices are open at a time. Each draw picks one of the open slices,
// weighted by its full length, and emits its next sample. A finished slice is replaced by the next
// one of the shuffled list. The draws are equal to those of Energon's sample loader.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "energon/order/order.h"
#include "energon/order/rng.h"
#include "io/recipe/shuffle_over_epochs.h"

namespace energon {

struct SliceOrderOptions {
  ShuffleOverEpochs shuffle_over_epochs = {};
  /// Number of slices open at a time, at least 1; must be 1 with kNone.
  std::int64_t parallel_slices = 16;
  /// Seed of the worker that runs this logical shard (worker_seed()).
  std::uint32_t seed = 0;
  /// SampleRef::leaf of the references.
  std::uint32_t leaf = 0;
};

class SliceOrder final : public Order {
 public:
  /// `bounds`: slice i is [bounds[i], bounds[i+1]) of the leaf's samples; strictly increasing; a
  /// single bound means no samples. `excluded`: sorted indexes to skip (size() counts them, as in
  /// Energon). Throws Error (kInvalidArgument).
  SliceOrder(std::vector<std::int64_t> bounds, std::vector<std::int64_t> excluded,
             const SliceOrderOptions& options);

  std::optional<SampleRef> next() override;
  void next_epoch() override;
  std::optional<std::int64_t> size() const override;
  std::optional<std::int64_t> samples_per_pass() const override {
    return bounds_.back() - bounds_.front();
  }
  bool list_ranges(std::vector<LeafRange>& ranges) const override;
  State save_state() const override;
  Config config() const override;

 private:
  struct OpenSlice {
    std::int64_t slice;   // kNoSlice if the place is empty
    std::int64_t cursor;  // next sample
  };
  static constexpr std::int64_t kNoSlice = -1;

  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;

  std::int64_t slice_count() const { return static_cast<std::int64_t>(bounds_.size()) - 1; }
  std::vector<std::int64_t> draw_pending(WorkerRng& rng) const;
  void start_epoch();
  bool refill(OpenSlice& place);
  void update_weights();
  void check_has_samples() const;
  bool excluded(std::int64_t index) const;
  std::int64_t length(std::int64_t slice) const;
  bool can_be_open(std::int64_t slice, std::int64_t sample) const;
  std::int64_t most_pending() const;
  void check_progress(const State& state, std::vector<std::string>& differences) const;
  void check_opened(const State& state, const std::vector<std::int64_t>& open_slices,
                    std::int64_t left, std::vector<std::string>& differences) const;

  const std::vector<std::int64_t> bounds_;
  const std::vector<std::int64_t> excluded_;
  const SliceOrderOptions options_;

  // Derived from the saved state below.
  std::vector<std::int64_t> pending_;  // the shuffled slices of this epoch
  CumulativeWeights weights_;          // lengths of the open slices

  // Saved state.
  WorkerRng rng_;
  WorkerRng epoch_rng_;  // state before pending_ was drawn
  bool epoch_started_ = false;
  std::int64_t pending_offset_ = 0;  // first slice of pending_ that is not yet open
  std::vector<OpenSlice> open_;
  std::int64_t epoch_ = 0;
  std::int64_t sample_count_ = 0;        // emitted in all epochs
  std::int64_t epoch_sample_count_ = 0;  // emitted in this epoch
};

}  // namespace energon
