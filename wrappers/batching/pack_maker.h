// Makes packs from the samples of a selected pack: postencode, then the pack function or generator.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/stage_guard.h"
#include "energon/state/state.h"
#include "wrappers/batching/pack_call.h"
#include "wrappers/batching/pack_selector.h"
#include "wrappers/batching/packing.h"
#include "wrappers/watch/function_timer.h"

namespace energon {

/// Holds a part of the saved state of packing: the numbers of calls and the running call.
class PackMaker {
 public:
  /// Both arguments must outlive the maker. `selector` rebuilds selected samples from their keys.
  PackMaker(const PackSelector& selector, const PackingOptions& options);

  /// The pack of `samples`; with a generator the first pack, and next_pack() returns the others.
  /// Nothing if no pack was made, because all samples or the pack failed. Requires: !is_running().
  std::optional<Sample> make(std::vector<Sample> samples);

  /// True while a generator may make more packs from the same samples.
  bool is_running() const { return !running_.empty(); }
  /// The next of these packs; nothing if there are no more or the generator failed. Requires:
  /// is_running().
  std::optional<Sample> next_pack();
  /// Drops the packs that the generator has not made yet.
  void end_call();

  /// Rebuilds the pack that was emitted with `key`.
  Sample restore_sample(const RestoreKey& key);
  void check_key(const RestoreKey& key) const;

  std::int64_t postencodes() const { return postencodes_; }
  std::int64_t packs() const { return packs_; }
  /// Adds the running call to `state`; nothing without a generator.
  void save_running(State& state) const;
  /// Appends what is wrong with the running call in `state`. Throws Error if its key is malformed
  /// or names samples that do not exist.
  void check_running(const State& state, std::vector<std::string>& differences) const;
  /// Continues from the counts and the running call of `state`.
  void apply_state(const State& state);

 private:
  bool is_generating() const;
  std::vector<Sample> postencode(std::vector<Sample> samples);
  Sample make_pack(std::span<Sample> samples, std::int64_t number) const;
  std::unique_ptr<PackCall> new_call(std::vector<Sample> samples, std::int64_t number) const;
  void begin_call_again();
  std::vector<Sample> restore_samples_of_pack(std::span<const RestoreKey> keys);
  void check_keys_of_pack(std::span<const RestoreKey> keys) const;

  const PackSelector& selector_;
  const PackingOptions& options_;
  StageGuard postencode_guard_;
  StageGuard pack_guard_;
  const FunctionTimer postencode_timer_;

  // Saved state; the first two count calls so far, failed ones included.
  std::int64_t postencodes_ = 0;  // of single samples
  std::int64_t packs_ = 0;        // of selected packs
  RestoreKey running_;            // selected pack whose packs are being emitted; empty: none
  std::int64_t outputs_ = 0;      // packs of running_ emitted so far

  std::unique_ptr<PackCall> call_;  // makes the packs of running_; made again if missing
};

}  // namespace energon
