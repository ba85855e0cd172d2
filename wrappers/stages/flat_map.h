// Makes any number of samples from each sample.
//
// The function returns a generator, which is called for one output at a time, so outputs that are
// not needed are not made. A state saved in the middle of a sample has its key and the number of
// outputs made so far. After a restore, the next request rebuilds the sample, then makes those
// outputs again and drops them.

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

/// Returns the next output, or nothing after the last one. An empty function has no outputs.
using SampleGenerator = std::function<std::optional<Sample>()>;

/// Runs in the worker. `context` lives as long as the generator. The random numbers belong to the
/// call, not to each output. An output without keys gets the keys and sources of the sample. The
/// policy of the stage handles what the function or the generator throws; the rest of the sample is
/// dropped.
using FlatMapFunction = std::function<SampleGenerator(Sample sample, CallContext& context)>;

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

  // The call on the sample `sample_`; made again if it is missing.
  std::unique_ptr<Call> call_;

  // Saved state.
  std::int64_t calls_ = 0;    // number of calls that have ended
  RestoreKey sample_;         // its outputs are being emitted; empty: none
  std::int64_t outputs_ = 0;  // outputs of sample_ emitted so far
};

}  // namespace energon
