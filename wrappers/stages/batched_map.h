// Calls a function with many samples at a time, such as a Hugging Face tokenizer, and delivers the
// results one by one: the same items as a Map whose function takes one sample, with the same keys.
//
// The stage reads the samples of a call ahead. A state has the keys of those that are still to be
// delivered; after a restore they are read again when needed, and the function is called with
// them. So calls after a restore or a skip have other samples than before, and the result for a
// sample must depend on this sample only.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
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

/// Runs in the worker. Returns one sample for each of `samples`, in the same order. A result must
/// depend on its sample only, so the function must draw no random numbers: the generator of
/// `context` is seeded from the first sample, whose key and call number it has. A result without
/// keys gets the keys and sources of its sample.
///
/// If it throws, it is called again with each sample alone, so the failure is that of one sample,
/// and the policy of the stage handles it. Another number of results, or the samples in another
/// order, is an Error (kInvalidArgument), which no policy skips.
using BatchedMapFunction =
    std::function<std::vector<Sample>(std::vector<Sample> samples, CallContext& context)>;

/// The most samples that a call may have.
inline constexpr std::int64_t kMaxSamplesPerCall = std::int64_t{1} << 16;

struct BatchedMapOptions {
  BatchedMapFunction function = nullptr;
  /// Number of samples in a call; from 1 to kMaxSamplesPerCall. Fewer at the end of an epoch.
  std::int64_t samples_per_call = 64;
  /// No more samples are read for a call once they have this payload.
  std::uint64_t max_held_bytes = kMaxHeldBytes;
  StageOptions stage = {.name = "map"};
};

/// Applies a function to many samples at a time. Its items have the keys of a Map.
class BatchedMap final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument).
  BatchedMap(std::unique_ptr<Dataset> inner, BatchedMapOptions options);

  /// After an Error of `inner`, the samples that were read for the unfinished call are lost. After
  /// an Error that is not that of one sample, the next call has the same samples.
  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override;
  /// Includes samples that a policy will skip, because their number is unknown in advance.
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  /// Calls no function.
  std::int64_t skip(std::int64_t count) override;
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  /// Calls the function with one sample.
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  void leave_out_excluded();
  bool fill();
  std::vector<Sample> read_ahead();
  std::vector<Sample> read_again();
  void call_together(std::vector<Sample> samples);
  std::optional<Sample> call_alone();
  std::vector<Sample> call(std::vector<Sample> samples, std::span<const Sample> origins,
                           std::int64_t first_call) const;
  void check_number(std::size_t results, std::size_t samples) const;
  void check_order(std::span<const Sample> results, std::span<const Sample> origins) const;
  void drop_front(std::size_t count);

  const std::unique_ptr<Dataset> inner_;
  const BatchedMapOptions options_;
  const CallResources resources_;
  StageGuard guard_;

  // For the first samples of waiting_: either some have their results, or the function is called
  // with each of them alone because it threw.
  std::deque<Sample> results_;
  std::size_t alone_ = 0;

  // Saved state.
  std::int64_t calls_ = 0;          // as counted by a Map: samples before the first of waiting_
  std::deque<RestoreKey> waiting_;  // samples of `inner` still to be delivered, in order
};

}  // namespace energon
