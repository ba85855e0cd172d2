// Applies a function to each sample.

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

/// Runs in the worker. One sample in, one out. The policy of the stage handles what it throws.
using MapFunction = std::function<Sample(Sample sample, CallContext& context)>;

/// Returns a sample to replace the one with the key `left_out`, the last of `in_a_row` consecutive
/// samples that the function left out; nothing if there is none.
using ReplaceFunction =
    std::function<std::optional<Sample>(const RestoreKey& left_out, std::int64_t in_a_row)>;

/// The result of `function` for `sample`, with the key Map(call)/… under which it is emitted. A
/// result without keys gets the keys and sources of `origins`. Throws Error (kInvalidArgument) for
/// duplicate fields, and what `function` throws.
Sample call_map(const MapFunction& function, Sample sample, const Sample& origins,
                const CallResources& resources, std::int64_t call);

class Map final : public Dataset {
 public:
  /// Takes ownership of `inner`. With `replace`, a sample left out by the function or by the policy
  /// is replaced by another from its leaf, and the samples of a leaf keep their order. Throws Error
  /// (kInvalidArgument) without a function.
  Map(std::unique_ptr<Dataset> inner, MapFunction function, const StageOptions& options,
      ReplaceFunction replace = nullptr);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override { inner_->next_epoch(); }
  /// Includes samples that a policy will leave out, because their number is not known in advance.
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  std::int64_t skip(std::int64_t count) override;
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size) override;
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  std::optional<Sample> guarded(Sample sample);
  std::optional<Sample> replacement_of(RestoreKey left_out);
  void map_in_place(std::size_t first, std::vector<Sample>& samples);
  void map_and_replace(std::size_t first, std::vector<Sample>& samples);

  const std::unique_ptr<Dataset> inner_;
  const MapFunction function_;
  const CallResources resources_;
  const ReplaceFunction replace_;
  StageGuard guard_;

  // Saved state.
  std::int64_t calls_ = 0;
};

}  // namespace energon
