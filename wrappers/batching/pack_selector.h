// Runs the select function of packing over a full buffer, and makes the samples that it selects.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/batching/pack_selection.h"
#include "wrappers/batching/packing.h"
#include "wrappers/watch/function_timer.h"

namespace energon {

/// Largest buffer of packing; a selection may have as many samples, repeated ones included.
inline constexpr std::int64_t kMaxBufferSize = std::int64_t{1} << 24;

/// Holds no saved state.
class PackSelector {
 public:
  /// The selected samples of each pack.
  using Selection = std::vector<std::vector<SelectedPart>>;

  /// Both arguments must outlive the selector.
  PackSelector(Dataset& inner, const PackingOptions& options);

  /// True if a selection may have parts of samples, and samples several times.
  bool selects_parts() const;

  /// Calls the select function for selection `number`, repeatedly until no sample is unpackable.
  /// Unpackable samples are removed from `samples`. If the function fails, all samples are removed
  /// and none is selected. Throws Error: what the policy does not let pass; kInvalidArgument for a
  /// position out of range or, unless parts are selected, twice; kResourceExhausted for more than
  /// kMaxBufferSize positions.
  Selection select(std::vector<Sample>& samples, std::int64_t number);

  /// The selected part of `sample`, with its key; the whole sample unless parts are selected.
  /// Nothing if cutting failed and the part is left out.
  std::optional<Sample> cut(Sample sample, const SamplePart& part);

  /// Counts samples that are in no pack.
  void count_unselected(std::uint64_t samples) { guard_.count_skipped(samples); }

  /// The sample that was selected with `key`. Throws Error, and what the cut function throws.
  Sample restore(const RestoreKey& key) const;
  /// Like restore(), for a stream that cannot continue without the sample.
  Sample rebuild(const RestoreKey& key) const;
  /// Throws as Dataset::check_key() unless `key` may be the key of a selected sample.
  void check_key(const RestoreKey& key) const;

 private:
  Selection call_select(const std::vector<Sample>& samples, std::int64_t number) const;
  Sample call_cut(Sample sample, const SamplePart& part) const;

  Dataset& inner_;
  const PackingOptions& options_;
  const CallResources resources_;  // of the select function
  StageGuard guard_;
  const FunctionTimer timer_;
};

}  // namespace energon
