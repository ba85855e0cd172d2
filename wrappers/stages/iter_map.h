// Applies a function to the stream: each call takes any number of samples and makes any number.
//
// The function gets `pull`, which returns the next inner sample, and returns a generator of
// outputs. When the generator ends, the function is called again. At the end of the inner epoch,
// pull returns nullopt; further outputs of that call still belong to the epoch, which ends after
// them.
//
// A state has the keys of the samples that the running call pulled and the number of outputs it
// made. After a restore, the next request repeats the call with the same samples and drops those
// outputs. So the function must not keep state between calls.

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
#include "wrappers/stages/map.h"

namespace energon {

/// The next inner sample; nullopt at the end of the inner epoch.
using Pull = std::function<std::optional<Sample>()>;

/// Runs in the worker. `pull` and `context` live as long as the generator. The key of the context
/// consists of the call and the first sample that it pulled; random numbers first drawn after that
/// pull depend on it. An output without keys gets the keys and sources of all samples pulled so
/// far. The policy of the stage handles exceptions of the function or the generator. The call then
/// ends, and the samples it pulled are skipped.
using IterMapFunction = std::function<SampleGenerator(Pull pull, CallContext& context)>;

struct IterMapOptions {
  IterMapFunction function = nullptr;
  /// A call that pulls more is an Error (kResourceExhausted), because every sample of the running
  /// call is in each state and in each output's key, and is read again after a restore.
  std::int64_t max_samples_per_call = 65536;
  /// Settings that the function depends on, as a JSON object, or "" without settings. They are part
  /// of config(), so that a state saved under other settings is refused.
  std::string settings = {};
  StageOptions stage = {.name = "iter_map"};
};

class IterCall;

class IterMap final : public Dataset {
 public:
  /// Takes ownership of `inner`. Throws Error (kInvalidArgument).
  IterMap(std::unique_ptr<Dataset> inner, IterMapOptions options);
  ~IterMap() override;

  /// Also throws Error (kInvalidArgument) if a call neither pulls a sample nor makes an output.
  std::optional<Sample> next() override;
  void next_epoch() override;
  /// Unknown in advance.
  std::optional<std::int64_t> size() const override { return std::nullopt; }
  std::int64_t skip(std::int64_t count) override { return skip_by_running(count); }
  Sample restore_sample(const RestoreKey& key) override;
  void check_key(const RestoreKey& key) const override;
  State save_state() const override;
  Config config() const override;

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override;
  void apply_state(const State& state) override;
  std::optional<Sample> sample_at(std::size_t position);
  void begin_call();
  std::optional<Sample> next_output();
  bool has_begun_call() const { return !pulled_.empty() || outputs_ > 0; }
  void end_failed_call();
  void end_finished_call();
  void end_call();

  const std::unique_ptr<Dataset> inner_;
  const IterMapOptions options_;
  StageGuard guard_;

  // The running call. Recreated if missing although samples were pulled or outputs made.
  std::unique_ptr<IterCall> call_;

  // Saved state.
  std::int64_t calls_ = 0;          // number of calls that have ended
  std::vector<RestoreKey> pulled_;  // keys of samples pulled by the running call
  std::int64_t outputs_ = 0;        // of the running call, emitted so far
  bool is_inner_end_ = false;       // pull returned nothing in this epoch

  // True while remaking outputs that were already emitted; no new sample may be pulled then.
  bool is_repeating_ = false;
};

}  // namespace energon
