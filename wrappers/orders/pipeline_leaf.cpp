#include "wrappers/orders/pipeline_leaf.h"

#include <algorithm>
#include <iterator>

namespace energon {

// --- PipelineData ---

PipelineData::PipelineData(std::vector<std::shared_ptr<const LeafDataset>> datasets) {
  for (auto& dataset : datasets) {
    const std::int64_t length = dataset->sample_count();
    leaves.push_back({.dataset = std::move(dataset), .length = length});
  }
}

// --- LeafRanges ---

LeafRanges::LeafRanges(const Order& order) {
  std::vector<LeafRange> all;
  if (!order.list_ranges(all)) {
    return;
  }
  std::sort(all.begin(), all.end(),
            [](const LeafRange& a, const LeafRange& b) { return a.begin < b.begin; });
  ranges_.emplace();
  for (const LeafRange& range : all) {
    if (range.leaf >= ranges_->size()) {
      ranges_->resize(std::size_t{range.leaf} + 1);
    }
    std::vector<Range>& of_leaf = (*ranges_)[range.leaf];
    if (!of_leaf.empty() && range.begin <= of_leaf.back().end) {
      of_leaf.back().end = std::max(of_leaf.back().end, range.end);
    } else {
      of_leaf.push_back({range.begin, range.end});
    }
  }
}

bool LeafRanges::may_have(std::int64_t leaf, std::int64_t index) const {
  return !ranges_ || find(leaf, index) != nullptr;
}

std::int64_t LeafRanges::end_of_range(std::int64_t leaf, std::int64_t index) const {
  const Range* const range = ranges_ ? find(leaf, index) : nullptr;
  return range != nullptr ? range->end : index + 1;
}

const LeafRanges::Range* LeafRanges::find(std::int64_t leaf, std::int64_t index) const {
  if (leaf < 0 || leaf >= std::ssize(*ranges_)) {
    return nullptr;
  }
  const std::vector<Range>& of_leaf = (*ranges_)[static_cast<std::size_t>(leaf)];
  const auto after =
      std::upper_bound(of_leaf.begin(), of_leaf.end(), index,
                       [](std::int64_t value, const Range& range) { return value < range.begin; });
  if (after == of_leaf.begin() || index >= std::prev(after)->end) {
    return nullptr;
  }
  return &*std::prev(after);
}

}  // namespace energon
