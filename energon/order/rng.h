// The random numbers that decide the sample order, bit-identical to Energon's WorkerRng over
// torch's CPU generator.
//
// We own the generator and the sampling (std::*_distribution and std::shuffle differ
// between standard libraries, torch changed its own sampling between releases).
// tests/energon/order/rng_test.cpp pins every draw; the torch tests compare the generator with
// libtorch's.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/order/mt19937.h"

namespace energon {

/// Which entry is chosen by a draw that is exactly equal to a cumulative sum of weights. With 16
/// equal weights, about one draw in 1.1 million is. The numbers are stored in saved states.
enum class TieRule : std::uint8_t {
  kThisEntry =
      0,  ///< the one whose weight ends at the sum: Energon 7.4.0, and states without a rule
  kNextEntry = 1,  ///< the following one: Energon 7.4.1
};

/// Cumulative weights to draw from: summed in double, each sum rounded to float, like torch.cumsum.
class CumulativeWeights {
 public:
  CumulativeWeights() = default;
  explicit CumulativeWeights(std::span<const float> weights);

  std::size_t size() const { return sums_.size(); }
  float total() const { return sums_.empty() ? 0.0F : sums_.back(); }
  /// The first index with a positive weight whose cumulative sum is above `value` (with kThisEntry:
  /// at least `value`). Requires: 0 <= value <= total(), total() > 0.
  std::size_t find(float value, TieRule ties) const;

 private:
  std::vector<float> sums_;
};

/// The draws of one pipeline stage. Not thread-safe.
class WorkerRng {
 public:
  explicit WorkerRng(std::uint32_t seed) : generator_(seed) {}

  /// A number in [0, n): one 32-bit draw modulo n, like torch.randint. Requires: 0 < n < 2^32.
  std::int64_t randbelow(std::int64_t n);
  /// A random permutation of [0, n), like torch.randperm below 2^32 / 20 elements.
  std::vector<std::int64_t> permutation(std::int64_t n);
  /// An index drawn by weight. With a single weight, nothing is drawn from the generator.
  std::size_t choice(const CumulativeWeights& weights, TieRule ties = TieRule::kNextEntry);

  std::string save() const { return generator_.save(); }
  void restore(std::string_view bytes) { generator_.restore(bytes); }
  /// See Mt19937::position().
  WorkerRng position() const { return WorkerRng(generator_.position()); }

 private:
  explicit WorkerRng(const Mt19937& generator) : generator_(generator) {}

  Mt19937 generator_;
};

}  // namespace energon
