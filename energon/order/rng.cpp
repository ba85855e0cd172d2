#include "energon/order/rng.h"

#include <algorithm>
#include <numeric>

namespace energon {

CumulativeWeights::CumulativeWeights(std::span<const float> weights) {
  sums_.reserve(weights.size());
  double sum = 0;
  for (const float weight : weights) {
    sum += weight;
    sums_.push_back(static_cast<float>(sum));
  }
}

std::size_t CumulativeWeights::find(float value, TieRule ties) const {
  // With kThisEntry a value of 0 (once in 2^24 draws) would select index 0 even if its weight is 0;
  // Energon 7.4.0 asserts then. We take the first index that has a weight, which is the same index
  // wherever it has an answer.
  auto found = ties == TieRule::kThisEntry && value > 0
                   ? std::lower_bound(sums_.begin(), sums_.end(), value)
                   : std::upper_bound(sums_.begin(), sums_.end(), value);
  if (found == sums_.end()) {
    // The total itself, which only weights near the least float give: the last one that counts.
    found = std::lower_bound(sums_.begin(), sums_.end(), total());
  }
  return static_cast<std::size_t>(found - sums_.begin());
}

std::int64_t WorkerRng::randbelow(std::int64_t n) {
  return static_cast<std::int64_t>(generator_() % static_cast<std::uint64_t>(n));
}

std::vector<std::int64_t> WorkerRng::permutation(std::int64_t n) {
  std::vector<std::int64_t> order(static_cast<std::size_t>(n));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  for (std::size_t i = 0; i + 1 < order.size(); ++i) {
    const auto offset = static_cast<std::size_t>(generator_() % (order.size() - i));
    std::swap(order[i], order[i + offset]);
  }
  return order;
}

std::size_t WorkerRng::choice(const CumulativeWeights& weights, TieRule ties) {
  if (weights.size() == 1) {
    return 0;
  }
  const float unit = static_cast<float>(generator_() & 0xFFFFFFU) * 0x1p-24F;
  return weights.find(unit * weights.total(), ties);
}

}  // namespace energon
