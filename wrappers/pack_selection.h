// Which samples of a buffer go into one pack.

#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "energon/sample.h"
#include "wrappers/combine.h"

namespace energon {

/// The positions in `samples` of each pack, in the order in which packs and samples are wanted. A
/// position may be in one pack at most; samples in none are dropped. Must depend on the samples
/// alone.
using SelectFunction =
    std::function<std::vector<std::vector<std::size_t>>(std::span<const Sample> samples)>;

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
