// The random numbers that decide the sample order, bit-identical to Energon's WorkerRng over
// torch's CPU generator.
//
// We own the generator and the sampling (std::*_distribution and std::shuffle differ
// between standard libraries, torch changed its own sampling between releases).
// tests/energon/order/rng_test.cpp pins every draw; the torch tests compare the generator with
// libtorch's.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

// The generator of all sample orders: MT19937, bit-identical to torch's CPU generator and
// std::mt19937.
//
// The words are generated at the first draw, so unused generators cost nothing. The state is the
// seed and the number of draws, or the words once the draws would take long to repeat.
// docs/formats/checkpoint.md defines both forms.

/// A value type. Seeded like torch's generator and std::mt19937: 1812433253 recurrence over the low
/// 32 bits of the seed.
class Mt19937 {
 public:
  /// Up to this many draws, a state is saved as the seed and the number of draws. Repeating the
  /// draws takes at most about half a millisecond, once, at the first draw after a restore.
  static constexpr std::uint64_t kMostRepeated = std::uint64_t{1} << 20;

  explicit Mt19937(std::uint32_t seed) : seed_(seed) {}

  std::uint32_t operator()() {
    if (position_ == kWords) {
      refill();
    }
    std::uint32_t value = (*words_)[position_++];
    value ^= value >> 11;
    value ^= (value << 7) & 0x9D2C5680U;
    value ^= (value << 15) & 0xEFC60000U;
    value ^= value >> 18;
    return value;
  }

  /// "<seed> <draws>" in decimal. After more than kMostRepeated draws, and after restoring such a
  /// state: 625 little-endian words, the position in [0, 624] and the 624 words.
  std::string save() const;
  /// Accepts either form. Cheap: the draws are repeated at the next draw. Throws Error (kMismatch)
  /// if `bytes` is not a state, and leaves the generator unchanged.
  void restore(std::string_view bytes);

  /// A generator at the same position, without the words if they can be regenerated. For positions
  /// that are stored but rarely drawn from.
  Mt19937 position() const;

 private:
  static constexpr std::size_t kWords = 624;
  using Words = std::array<std::uint32_t, kWords>;

  void refill();
  void make_words();
  std::uint64_t draws() const;

  std::uint32_t seed_;
  bool has_seed_ = true;      // the words follow from the seed and the draws
  std::uint64_t before_ = 0;  // draws before the current words; all draws if there are no words
  std::size_t position_ = kWords;  // of the next draw in the words; kWords: all used
  std::optional<Words> words_;
};

/// Cumulative weights to draw from: summed in double, each sum rounded to float, like torch.cumsum.
class CumulativeWeights {
 public:
  CumulativeWeights() = default;
  explicit CumulativeWeights(std::span<const float> weights);

  std::size_t size() const { return sums_.size(); }
  float total() const { return sums_.empty() ? 0.0F : sums_.back(); }
  /// The first index with a positive weight whose cumulative sum is above `value`, as in Energon
  /// 7.4.1. (Energon 7.4.0 takes the previous entry if `value` is exactly a sum: with 16 equal
  /// weights, one draw in 1.1 million.) Requires: 0 <= value <= total(), total() > 0.
  std::size_t find(float value) const;

 private:
  std::vector<float> sums_;
};

/// The draws of one pipeline stage. Not thread-safe.
class WorkerRng {
 public:
  explicit WorkerRng(std::uint32_t seed) : generator_(seed) {}

  /// An integer in [0, n): one 32-bit draw modulo n, like torch.randint. Requires: 0 < n < 2^32.
  std::int64_t randbelow(std::int64_t n);
  /// A random permutation of [0, n), like torch.randperm below 2^32 / 20 elements.
  std::vector<std::int64_t> permutation(std::int64_t n);
  /// An index drawn by weight. With a single weight, nothing is drawn from the generator.
  std::size_t choice(const CumulativeWeights& weights);

  std::string save() const { return generator_.save(); }
  void restore(std::string_view bytes) { generator_.restore(bytes); }
  /// See Mt19937::position().
  WorkerRng position() const { return WorkerRng(generator_.position()); }

 private:
  explicit WorkerRng(const Mt19937& generator) : generator_(generator) {}

  Mt19937 generator_;
};

}  // namespace energon
