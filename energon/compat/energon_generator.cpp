#include "energon/compat/energon_generator.h"

#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "energon/order/rng.h"
#include "io/error.h"

namespace energon {
namespace {

// CPUGeneratorImplState of torch: the seed (u64), draws left before the words are renewed (i32),
// whether it is seeded (i32), the next word (u64), 624 words of 64 bits, then what normal
// distributions keep.
constexpr std::size_t kTorchBytes = 5056;
constexpr std::size_t kLeftOffset = 8;
constexpr std::size_t kNextOffset = 16;
constexpr std::size_t kWordsOffset = 24;
constexpr std::uint32_t kWords = 624;
constexpr int kCompared = 20;  // draws that tell two positions apart
constexpr std::uint64_t kDrawsPerCheck = std::uint64_t{1} << 20;

template <class Number>
Number number_at(std::string_view bytes, std::size_t offset) {
  Number number;
  std::memcpy(&number, bytes.data() + offset, sizeof(number));
  return number;
}

void append_u32(std::string& bytes, std::uint32_t value) {
  char copy[sizeof(value)];
  std::memcpy(copy, &value, sizeof(value));
  bytes.append(copy, sizeof(value));
}

Mt19937 restored(const std::string& state) {
  Mt19937 generator(0);
  generator.restore(state);
  return generator;
}

bool draws_the_same(Mt19937 one, Mt19937 other) {
  for (int i = 0; i < kCompared; ++i) {
    if (one() != other()) {
      return false;
    }
  }
  return true;
}

void skip(Mt19937& generator, std::uint64_t draws,
          const std::function<void()>& check_cancelled = {}) {
  for (std::uint64_t i = 0; i < draws; ++i) {
    if (check_cancelled && i % kDrawsPerCheck == 0) {
      check_cancelled();
    }
    generator();
  }
}

}  // namespace

EnergonGenerator::EnergonGenerator(std::string_view bytes) {
  if (bytes.size() != kTorchBytes) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the state of a generator has {} bytes; torch's has {}", bytes.size(),
                            kTorchBytes));
  }
  seed_ = number_at<std::uint64_t>(bytes, 0);
  const auto left = number_at<std::int32_t>(bytes, kLeftOffset);
  const auto next = number_at<std::uint64_t>(bytes, kNextOffset);
  // One draw before the words are renewed, torch counts none of them as left.
  const bool is_used_up = left == 1;
  if (!is_used_up &&
      (next > kWords || left < 1 || next + static_cast<std::uint64_t>(left) != kWords + 1)) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("the state of a generator has {} words left behind word {} of {}", left,
                            next, kWords));
  }
  append_u32(words_, is_used_up ? kWords : static_cast<std::uint32_t>(next));
  for (std::uint32_t i = 0; i < kWords; ++i) {
    append_u32(words_, static_cast<std::uint32_t>(
                           number_at<std::uint64_t>(bytes, kWordsOffset + 8 * std::size_t{i})));
  }
}

std::string EnergonGenerator::state() const {
  const std::uint32_t position = number_at<std::uint32_t>(words_, 0);
  const Mt19937 wanted = restored(words_);
  Mt19937 generator(static_cast<std::uint32_t>(seed_));
  if (draws_the_same(generator, wanted)) {
    return generator.save();
  }
  // Later positions are a multiple of the words apart.
  skip(generator, position);
  for (std::uint64_t draws = position; draws <= Mt19937::kMostRepeated; draws += kWords) {
    if (draws_the_same(generator, wanted)) {
      return generator.save();
    }
    skip(generator, kWords);
  }
  return words_;
}

bool EnergonGenerator::has_drawn(std::uint64_t draws,
                                 const std::function<void()>& check_cancelled) const {
  Mt19937 generator(static_cast<std::uint32_t>(seed_));
  skip(generator, draws, check_cancelled);
  return draws_the_same(generator, restored(words_));
}

std::string generator_after(std::uint32_t seed, std::uint64_t draws,
                            const std::function<void()>& check_cancelled) {
  Mt19937 generator(seed);
  skip(generator, draws, check_cancelled);
  return generator.save();
}

}  // namespace energon
