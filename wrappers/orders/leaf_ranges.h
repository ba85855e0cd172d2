// Where the samples of an order lie: whether a reference or key of a saved state can be one of it.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "energon/order/order.h"

namespace energon {

class LeafRanges {
 public:
  /// Of `order`, which may not say it; then any sample may be one of it.
  explicit LeafRanges(const Order& order);

  bool may_have(std::int64_t leaf, std::int64_t index) const;

 private:
  struct Range {
    std::int64_t begin;
    std::int64_t end;
  };

  // By leaf: in order, disjoint.
  std::optional<std::map<std::int64_t, std::vector<Range>>> ranges_;
};

}  // namespace energon
