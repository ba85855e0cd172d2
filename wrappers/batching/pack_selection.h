// Which samples of a buffer go into one pack.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "energon/sample/sample.h"
#include "wrappers/held/combine.h"

namespace energon {

/// The positions in `samples` of each pack, in the order in which packs and samples are wanted. A
/// position may be in one pack at most; samples in none are dropped. Must depend on the samples
/// alone.
using SelectFunction =
    std::function<std::vector<std::vector<std::size_t>>(std::span<const Sample> samples)>;

/// A range of a sample in the unit that packs are measured in: tokens, say. Not negative.
struct SamplePart {
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< not in it
};

/// A sample of the buffer that goes into a pack, or a part of one.
struct SelectedPart {
  std::size_t position = 0;
  SamplePart part = {};
};

/// As SelectFunction, for selections that split samples or use them several times: a position may
/// come as often as wanted.
using SelectPartsFunction =
    std::function<std::vector<std::vector<SelectedPart>>(std::span<const Sample> samples)>;

using SelectStage = std::variant<SelectFunction, SelectPartsFunction>;

/// The part of a sample that was selected. Must depend on its arguments alone.
using CutFunction = std::function<Sample(Sample sample, const SamplePart& part)>;

/// Thrown by a select function: these samples fit into no pack. They are left out by the policy and
/// the function is called again with the others.
class UnpackableSamples : public std::exception {
 public:
  /// `positions`: at least one.
  UnpackableSamples(std::vector<std::size_t> positions, std::string reason)
      : positions_(std::move(positions)), reason_(std::move(reason)) {}
  const char* what() const noexcept override { return reason_.c_str(); }
  const std::vector<std::size_t>& positions() const { return positions_; }

 private:
  std::vector<std::size_t> positions_;
  std::string reason_;
};

/// First-fit-decreasing: the longest samples first, each into the first pack that has room, so that
/// no pack is longer than `max_length`. Samples of a pack keep the order of the buffer. Samples
/// that are longer than `max_length`, or of negative length, are unpackable. Throws Error
/// (kInvalidArgument).
SelectFunction pack_by_length(LengthFunction length, std::int64_t max_length);

}  // namespace energon
