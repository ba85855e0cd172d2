// The sample ranges of an order, to check whether a reference or key in a saved state can belong to
// it.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "energon/order/order.h"

namespace energon {

class LeafRanges {
 public:
  /// Takes the ranges from `order`. If the order does not report any, every sample may belong to
  /// it.
  explicit LeafRanges(const Order& order);

  bool may_have(std::int64_t leaf, std::int64_t index) const;
  /// The end of the range that has sample `index`; index + 1 if none is known to have it.
  std::int64_t end_of_range(std::int64_t leaf, std::int64_t index) const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  const Range* find(std::int64_t leaf, std::int64_t index) const;

  // By leaf, which are few and numbered without gaps: in order, disjoint.
  std::optional<std::vector<std::vector<Range>>> ranges_;
};

}  // namespace energon
