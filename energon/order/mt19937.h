// The generator of all sample orders: MT19937, bit-identical to torch's CPU generator and
// std::mt19937.
//
// The words of a generator are made when the first number is drawn, so generators that are not used
// cost nothing. Its state is its seed and the number of draws, as long as repeating them is cheap;
// only then is it the words. docs/formats/checkpoint.md has both forms.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace energon {

/// A value type. Seeded like torch's generator and std::mt19937: 1812433253 recurrence over the low
/// 32 bits of the seed.
class Mt19937 {
 public:
  /// A state with at most this many draws is saved as a number. To repeat them takes at most about
  /// half a millisecond, once, at the first draw after a restore.
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

  /// "<seed> <draws>" in decimal; after more than kMostRepeated draws, and after the restore of
  /// such a state, 625 little-endian words: the position in [0, 624], then the 624 words.
  std::string save() const;
  /// Takes either form. Costs nothing: draws are repeated at the next draw. Throws Error
  /// (kMismatch) if `bytes` is no state; the generator is then unchanged.
  void restore(std::string_view bytes);

  /// A generator at the same position, without its words where they can be made again. For a
  /// position that is kept but seldom drawn from.
  Mt19937 position() const;

 private:
  static constexpr std::size_t kWords = 624;
  using Words = std::array<std::uint32_t, kWords>;

  void refill();
  void make_words();
  std::uint64_t draws() const;

  std::uint32_t seed_;
  bool has_seed_ = true;           // the words follow from the seed and the draws
  std::uint64_t before_ = 0;       // draws before the words at hand; without words: all draws
  std::size_t position_ = kWords;  // of the next draw in the words; kWords: none is left
  std::optional<Words> words_;
};

}  // namespace energon
