// Selects which samples of a buffer go into one pack.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "energon/sample/restore_key.h"
#include "energon/sample/sample.h"
#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"
#include "wrappers/buffers/combine.h"
#include "wrappers/watch/timed_stage.h"

namespace energon {

/// Returns, for each pack, the positions of its samples in `samples`, with packs and samples in the
/// desired order. Each position may be in at most one pack; samples in no pack are dropped. Must
/// depend only on the samples and the context, whose random numbers are seeded by the number of the
/// selection and the first sample. A function that needs no context may take only the samples.
using SelectFunction =
    ContextFunction<std::vector<std::vector<std::size_t>>(std::span<const Sample> samples)>;

/// A range [begin, end) of a sample, in the unit of pack lengths, such as tokens. Not negative.
struct SamplePart {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< exclusive
};

/// A sample of the buffer, or a part of one, that goes into a pack.
struct SelectedPart {
  std::size_t position = 0;
  SamplePart part = {};
};

/// Like SelectFunction, but may split samples or use them several times: a position may occur any
/// number of times.
using SelectPartsFunction =
    ContextFunction<std::vector<std::vector<SelectedPart>>(std::span<const Sample> samples)>;

using SelectStage = std::variant<SelectFunction, SelectPartsFunction>;

/// Makes the selected part of a sample. Must depend only on its arguments.
using CutFunction = std::function<Sample(Sample sample, const SamplePart& part)>;

/// Thrown by a select function for samples that fit into no pack. The stage's policy applies to
/// these samples, and the function is called again with the others.
class UnpackableSamples : public std::exception {
 public:
  /// Requires: at least one position.
  UnpackableSamples(std::vector<std::size_t> positions, std::string reason)
      : positions_(std::move(positions)), reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }
  const std::vector<std::size_t>& positions() const { return positions_; }

 private:
  std::vector<std::size_t> positions_;
  std::string reason_;
};

/// First-fit-decreasing: the longest samples first, each into the first pack that has room, so that
/// no pack is longer than `max_length`. The samples of a pack keep their order in the buffer.
/// Samples longer than `max_length`, or with a negative length, are unpackable. Throws Error
/// (kInvalidArgument).
SelectFunction pack_by_length(LengthFunction length, std::int64_t max_length);

struct PackingOptions;

/// Largest buffer of packing; a selection may have as many samples, repeated ones included.
inline constexpr std::int64_t kMaxBufferSize = std::int64_t{1} << 24;

/// Runs the select function of packing over a full buffer, and makes the selected samples. Has no
/// saved state.
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
  /// and none is selected. Throws Error: failures that the policy does not tolerate;
  /// kInvalidArgument for a position out of range or, unless parts are selected, twice;
  /// kResourceExhausted for more than kMaxBufferSize positions.
  Selection select(std::vector<Sample>& samples, std::int64_t number);

  /// The selected part of `sample`, with its key; the whole sample unless parts are selected.
  /// Nullopt if cutting failed and the part is skipped.
  std::optional<Sample> cut(Sample sample, const SamplePart& part);

  /// Counts samples that are in no pack.
  void count_unselected(std::uint64_t samples) { guard_.count_skipped(samples); }

  /// The sample that was selected with `key`. Throws Error, and whatever the cut function throws.
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
  const CallResources resources_;  // resources of the select function
  StageGuard guard_;
  const FunctionTimer timer_;
};

}  // namespace energon
