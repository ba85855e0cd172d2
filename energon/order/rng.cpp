#include "energon/order/rng.h"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

static_assert(std::endian::native == std::endian::little,
              "saved generator states are little-endian");

constexpr std::size_t kShift = 397;
constexpr std::size_t kLongestShown = 40;  // bytes of a state in a message

std::uint32_t twist(std::uint32_t high, std::uint32_t low) {
  const std::uint32_t mixed = (high & 0x80000000U) | (low & 0x7FFFFFFFU);
  return (mixed >> 1) ^ ((0U - (low & 1U)) & 0x9908B0DFU);
}

// The next words. The loops are free of branches so that the compiler vectorizes them: a restore
// repeats whole blocks.
template <std::size_t kWords>
void next_block(std::array<std::uint32_t, kWords>& words) {
  for (std::size_t i = 0; i < kWords - kShift; ++i) {
    words[i] = words[i + kShift] ^ twist(words[i], words[i + 1]);
  }
  for (std::size_t i = kWords - kShift; i < kWords - 1; ++i) {
    words[i] = words[i + kShift - kWords] ^ twist(words[i], words[i + 1]);
  }
  words[kWords - 1] = words[kShift - 1] ^ twist(words[kWords - 1], words[0]);
}

struct SeedAndDraws {
  std::uint32_t seed = 0;
  std::uint64_t draws = 0;
};

// Exactly two decimal numbers separated by a space.
std::optional<SeedAndDraws> parse_numbers(std::string_view text) {
  const char* const end = text.data() + text.size();
  SeedAndDraws numbers;
  const auto [space, no_seed] = std::from_chars(text.data(), end, numbers.seed);
  if (no_seed != std::errc() || space == end || *space != ' ') {
    return std::nullopt;
  }
  const auto [rest, no_draws] = std::from_chars(space + 1, end, numbers.draws);
  return no_draws == std::errc() && rest == end ? std::optional(numbers) : std::nullopt;
}

}  // namespace

// The words of the seed are not output: the first draw generates the first block.
void Mt19937::make_words() {
  Words& words = words_.emplace();
  words[0] = seed_;
  for (std::uint32_t i = 1; i < kWords; ++i) {
    words[i] = 1812433253U * (words[i - 1] ^ (words[i - 1] >> 30)) + i;
  }
  const std::uint64_t draws = before_;
  for (before_ = 0; before_ + kWords <= draws; before_ += kWords) {
    next_block(words);
  }
  if (draws > before_) {
    next_block(words);
    position_ = draws - before_;
  }
}

void Mt19937::refill() {
  if (!words_) {
    make_words();
    if (position_ != kWords) {
      return;
    }
  } else {
    before_ += kWords;
  }
  next_block(*words_);
  position_ = 0;
}

std::uint64_t Mt19937::draws() const { return words_ ? before_ + position_ : before_; }

Mt19937 Mt19937::position() const {
  if (!has_seed_ || draws() > kMostRepeated) {
    return *this;
  }
  Mt19937 copy(seed_);
  copy.before_ = draws();
  return copy;
}

std::string Mt19937::save() const {
  if (has_seed_ && draws() <= kMostRepeated) {
    return fmt::format("{} {}", seed_, draws());
  }
  std::string bytes(4 + 4 * kWords, '\0');
  const auto position = static_cast<std::uint32_t>(position_);
  std::memcpy(bytes.data(), &position, 4);
  std::memcpy(bytes.data() + 4, words_->data(), 4 * kWords);
  return bytes;
}

void Mt19937::restore(std::string_view bytes) {
  if (bytes.size() == 4 + 4 * kWords) {
    std::uint32_t position = 0;
    std::memcpy(&position, bytes.data(), 4);
    if (position > kWords) {
      throw Error(ErrorCode::kMismatch, fmt::format("generator state has position {}, expected at "
                                                    "most {}",
                                                    position, kWords));
    }
    has_seed_ = false;
    position_ = position;
    std::memcpy(words_.emplace().data(), bytes.data() + 4, 4 * kWords);
    return;
  }
  const std::optional<SeedAndDraws> numbers = parse_numbers(bytes);
  if (!numbers) {
    throw Error(
        ErrorCode::kMismatch,
        fmt::format("generator state '{}' of {} bytes: expected \"<seed> <draws>\" or {} "
                    "bytes",
                    printable(bytes.substr(0, kLongestShown)), bytes.size(), 4 + 4 * kWords));
  }
  if (numbers->draws > kMostRepeated) {
    throw Error(ErrorCode::kMismatch,
                fmt::format("generator state has {} draws to repeat, expected at most {}",
                            numbers->draws, kMostRepeated));
  }
  seed_ = numbers->seed;
  has_seed_ = true;
  before_ = numbers->draws;
  position_ = kWords;
  words_.reset();
}

CumulativeWeights::CumulativeWeights(std::span<const float> weights) {
  sums_.reserve(weights.size());
  double sum = 0;
  for (const float weight : weights) {
    sum += weight;
    sums_.push_back(static_cast<float>(sum));
  }
}

std::size_t CumulativeWeights::find(float value) const {
  auto found = std::upper_bound(sums_.begin(), sums_.end(), value);
  if (found == sums_.end()) {
    // `value` is the total, which only denormal weights produce: take the last positive weight.
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

std::size_t WorkerRng::choice(const CumulativeWeights& weights) {
  if (weights.size() == 1) {
    return 0;
  }
  const float unit = static_cast<float>(generator_() & 0xFFFFFFU) * 0x1p-24F;
  return weights.find(unit * weights.total());
}

}  // namespace energon
