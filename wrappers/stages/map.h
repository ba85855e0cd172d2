// Stages that call a function for each sample: to transform it (Map), to keep or reject it
// (Filter), or to make any number of samples from it (FlatMap).

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

// --- Map ---

/// Runs in the worker. One sample in, one out. The policy of the stage handles its exceptions.
using MapFunction = std::function<Sample(Sample sample, CallContext& context)>;

/// Returns a sample to replace the one with the key `left_out`, the last of `in_a_row` consecutive
/// samples that the function skipped; nullopt if there is no replacement.
using ReplaceFunction =
    std::function<std::optional<Sample>(const RestoreKey& left_out, std::int64_t in_a_row)>;

/// The result of `function` for `sample`, with the key Map(call)/… under which it is emitted. A
/// result without keys gets the keys and sources of `origins`. Throws Error (kInvalidArgument) for
/// duplicate fields, and whatever `function` throws.
Sample call_map(const MapFunction& function, Sample sample, const Sample& origins,
                const CallResources& resources, std::int64_t call);

/// Applies a function to each sample.
class Map final : public Dataset {
 public:
  /// Takes ownership of `inner`. With `replace`, a sample skipped by the function or by the policy
  /// is replaced by another from its leaf, and the samples of a leaf keep their order. Throws Error
  /// (kInvalidArgument) without a function.
  Map(std::unique_ptr<Dataset> inner, MapFunction function, const StageOptions& options,
      ReplaceFunction replace = nullptr);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;
  void next_epoch() override { inner_->next_epoch(); }
  /// Includes samples that a policy will skip, because their number is unknown in advance.
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

// --- Filter ---

/// Runs in the worker. The context has the sample's own key; its random numbers depend on the name
/// of the stage and on the sample.
using FilterFunction = std::function<bool(const Sample& sample, CallContext& context)>;

/// Keeps the samples that a predicate accepts. Rejected samples are not failures and are not
/// counted as such.
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
  const CallResources resources_;  // with a separate seed for the filter's draws
  StageGuard guard_;

  // Saved state.
  std::int64_t calls_ = 0;
};

// --- FlatMap ---

/// Returns the next output, or nullopt after the last one. An empty function has no outputs.
using SampleGenerator = std::function<std::optional<Sample>()>;

/// Runs in the worker. `context` lives as long as the generator. The random numbers belong to the
/// call, not to each output. An output without keys gets the keys and sources of the sample. The
/// policy of the stage handles exceptions of the function or the generator; the rest of the sample
/// is dropped.
using FlatMapFunction = std::function<SampleGenerator(Sample sample, CallContext& context)>;

/// Makes any number of samples from each sample.
///
/// The function returns a generator, which is called for one output at a time, so outputs that are
/// not needed are not made. A state saved in the middle of a sample has its key and the number of
/// outputs made so far. After a restore, the next request rebuilds the sample, then makes those
/// outputs again and drops them.
class FlatMap final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument) without a function.
  FlatMap(std::unique_ptr<Dataset> inner, FlatMapFunction function, const StageOptions& options);
  ~FlatMap() override;

  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Not known in advance.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  class Call;

  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  bool begin_call();
  std::optional<Sample> next_output();
  void end_call();

  const std::unique_ptr<Dataset> inner_;
  const FlatMapFunction function_;
  const CallResources resources_;
  StageGuard guard_;

  // The call on the sample `sample_`; recreated if missing.
  std::unique_ptr<Call> call_;

  // Saved state.
  std::int64_t calls_ = 0;    // number of calls that have ended
  RestoreKey sample_;         // sample whose outputs are being emitted, if any
  std::int64_t outputs_ = 0;  // outputs of sample_ emitted so far
};

}  // namespace energon
