// A function over the stream: each call takes any number of samples and makes any number.
//
// The function gets `pull`, which gives the next inner sample, and gives a generator of outputs;
// when the generator ends, the function is called anew. At the end of the inner epoch pull gives
// nothing; what the call still gives belongs to the epoch, which then ends.
//
// A state has the keys of the samples that the running call pulled and how many outputs it gave.
// After a restore, when the next output is wanted, the call is made again over the same samples and
// those outputs are dropped. So the function must keep nothing between calls.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/stages/flat_map.h"

namespace energon {

/// The next inner sample; nothing at the end of the inner epoch.
using Pull = std::function<std::optional<Sample>()>;

/// Runs in the worker. `pull` and `context` live as long as the generator. The key of the context,
/// and so its random numbers if they are first drawn then, are those of the call and the first
/// sample it pulled. An output without keys gets the keys and sources of all samples pulled so far.
/// What function or generator throw is up to the policy of the stage and ends the call; the samples
/// it pulled are left out.
using IterMapFunction = std::function<SampleGenerator(Pull pull, CallContext& context)>;

struct IterMapOptions {
  IterMapFunction function = nullptr;
  /// More are an Error (kResourceExhausted): every sample of the running call is in each state, in
  /// each output's key, and is read again after a restore.
  std::int64_t max_samples_per_call = 65536;
  /// What the function depends on besides: stands in config(), so that a state of other settings is
  /// refused. A JSON object; empty: nothing does.
  std::string settings = {};
  StageOptions stage = {.name = "iter_map"};
};

class IterMap final : public Dataset {
 public:
  /// Takes `inner`. Throws Error (kInvalidArgument).
  IterMap(std::unique_ptr<Dataset> inner, IterMapOptions options);
  ~IterMap() override;

  /// Also throws Error (kInvalidArgument) if a call neither pulls nor gives anything.
  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Not known beforehand.
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
  std::optional<Sample> sample_at(std::size_t position);
  void begin_call();
  std::optional<Sample> next_output();
  void end_call();

  const std::unique_ptr<Dataset> inner_;
  const IterMapOptions options_;
  StageGuard guard_;

  // The running call; made again if it is missing though samples were pulled or outputs given.
  std::unique_ptr<Call> call_;

  // Saved state.
  std::int64_t calls_ = 0;          // that have ended
  std::vector<RestoreKey> pulled_;  // by the running call
  std::int64_t outputs_ = 0;        // of the running call that were given
  bool is_inner_end_ = false;       // pull gave nothing in this epoch

  // Whether outputs are made again that were given before; then nothing new may be pulled.
  bool is_repeating_ = false;
};

}  // namespace energon
