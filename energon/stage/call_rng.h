// Random numbers for functions of the user.
//
// The draws are written out here, since those of <random> differ between standard libraries: a
// restored sample is augmented the same way by every build.

#pragma once

#include <cstdint>

#include "energon/order/rng.h"

namespace energon {

/// A standard UniformRandomBitGenerator over MT19937, so that <random> and std::shuffle take it,
/// and the usual draws. For one thread.
class CallRng {
 public:
  using result_type = std::uint32_t;

  explicit CallRng(std::uint32_t seed) : generator_(seed) {}

  static constexpr result_type min() { return 0; }
  static constexpr result_type max() { return 0xFFFF'FFFF; }
  /// The next 32 bits.
  result_type operator()() { return generator_(); }

  /// Uniform in [0, 1), with 53 random bits: two words.
  double uniform();
  /// Uniform in [low, high). Throws Error (kInvalidArgument) unless both are finite and low < high.
  double uniform(double low, double high);
  /// Uniform in [0, n), without bias: two words, rarely more. Throws Error (kInvalidArgument)
  /// unless n > 0.
  std::int64_t integer(std::int64_t n);
  /// True with probability `p`. Throws Error (kInvalidArgument) unless 0 <= p <= 1.
  bool chance(double p);
  /// A seed in [0, 2^63) for another generator, such as that of torch (at::manual_seed,
  /// torch.Generator().manual_seed): two words. A new one each time.
  std::int64_t seed();

 private:
  std::uint64_t next_64();

  Mt19937 generator_;
};

}  // namespace energon
