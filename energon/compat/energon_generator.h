// The generators in states of Energon's loader: the bytes of torch's CPU generator, as a state of
// the generator of our orders.

#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace energon {

/// A generator in a state of Energon's loader: where it was made, and how far it got.
class EnergonGenerator {
 public:
  /// `bytes`: torch.Generator.get_state() (CPUGeneratorImplState, 5,056 bytes). Throws Error
  /// (kCorruptData).
  explicit EnergonGenerator(std::string_view bytes);

  std::uint64_t seed() const { return seed_; }
  /// Its state in the form of Mt19937::save(): the seed and the number of draws where these are
  /// few, else the words.
  std::string state() const;
  /// Whether it is the generator of its seed after `draws` numbers. Takes a few ns for each of
  /// them; `check_cancelled`, if there is one, is called every few ms and may throw.
  bool has_drawn(std::uint64_t draws, const std::function<void()>& check_cancelled = {}) const;

 private:
  std::uint64_t seed_ = 0;
  std::string words_;  // the long form of Mt19937::save()
};

/// The state of a generator of `seed` after `draws` numbers, in the form of Mt19937::save(). Takes
/// time and calls `check_cancelled` as has_drawn().
std::string generator_after(std::uint32_t seed, std::uint64_t draws,
                            const std::function<void()>& check_cancelled = {});

}  // namespace energon
