#include "energon/order/rng.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

static_assert(std::endian::native == std::endian::little,
              "saved generator states are little-endian");

Mt19937::Mt19937(std::uint32_t seed) {
  words_[0] = seed;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    words_[i] = 1812433253U * (words_[i - 1] ^ (words_[i - 1] >> 30)) + i;
  }
}

void Mt19937::refill() {
  constexpr std::size_t kShift = 397;
  const auto twist = [](std::uint32_t high, std::uint32_t low) {
    const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
    return (mixed >> 1) ^ ((low & 1U) != 0 ? 0x9908B0DFU : 0U);
  };
  for (std::size_t i = 0; i < kWords - kShift; ++i) {
    words_[i] = words_[i + kShift] ^ twist(words_[i], words_[i + 1]);
  }
  for (std::size_t i = kWords - kShift; i < kWords - 1; ++i) {
    words_[i] = words_[i + kShift - kWords] ^ twist(words_[i], words_[i + 1]);
  }
  words_[kWords - 1] = words_[kShift - 1] ^ twist(words_[kWords - 1], words_[0]);
  position_ = 0;
}

std::uint32_t Mt19937::operator()() {
  if (position_ == kWords) {
    refill();
  }
  std::uint32_t value = words_[position_++];
  value ^= value >> 11;
  value ^= (value << 7) & 0x9D2C5680U;
  value ^= (value << 15) & 0xEFC60000U;
  value ^= value >> 18;
  return value;
}

std::string Mt19937::save() const {
  std::string bytes(4 + 4 * kWords, '\0');
  const auto position = static_cast<std::uint32_t>(position_);
  std::memcpy(bytes.data(), &position, 4);
  std::memcpy(bytes.data() + 4, words_.data(), 4 * kWords);
  return bytes;
}

void Mt19937::restore(std::string_view bytes) {
  std::uint32_t position = 0;
  if (bytes.size() == 4 + 4 * kWords) {
    std::memcpy(&position, bytes.data(), 4);
  }
  if (bytes.size() != 4 + 4 * kWords || position > kWords) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format(
            "generator state has {} bytes and position {}; expected {} bytes and at most {}",
            bytes.size(), position, 4 + 4 * kWords, kWords));
  }
  position_ = position;
  std::memcpy(words_.data(), bytes.data() + 4, 4 * kWords);
}

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
