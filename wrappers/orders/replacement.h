// An order of several that can give one reference more of one of them.
//
// A blend draws which order is next before anybody knows whether its sample can be used. Energon
// draws after cooking, so there a sample that a cooker leaves out costs its dataset nothing. Here
// the next reference of the same order takes the place, so that the mixture is the same.

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

  /// References of one passage over the order of `leaf`: when so many in a row are left out, there
  /// is nothing to replace them by.
  virtual std::int64_t replaceable(std::uint32_t leaf) const = 0;
};

}  // namespace energon
