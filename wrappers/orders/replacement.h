// An order over several others that can give one more reference from a chosen one of them.
//
// A blend draws the next order before it is known whether the sample can be used. Energon draws
// after cooking, so a sample that a cooker leaves out there does not change the mixture. Here the
// next reference of the same order replaces the sample, so that the mixture is the same as
// Energon's.

#pragma once

#include <cstdint>
#include <optional>

#include "energon/sample/sample_ref.h"

namespace energon {

class Replacement {
 public:
  virtual ~Replacement() = default;

  /// The next reference of the order that gave `left_out`, without a draw; nothing if it has ended.
  /// Requires: the order at position i gives the references of leaf i.
  virtual std::optional<SampleRef> replace(const SampleRef& left_out) = 0;

  /// Number of references in one pass over the order of `leaf`. When that many in a row are left
  /// out, no replacement exists.
  virtual std::int64_t replaceable(std::uint32_t leaf) const = 0;
};

}  // namespace energon
