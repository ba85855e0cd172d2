#include "bench/support/measure.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "io/hash.h"

namespace energon::bench {

// --- Measuring ---

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double Measurement::median() const { return quantile(values, 0.5); }
double Measurement::min() const { return quantile(values, 0); }
double Measurement::max() const { return quantile(values, 1); }

std::vector<Measurement> measure_in_turn(const std::vector<Variant>& variants, int repetitions) {
  std::vector<Measurement> measurements;
  for (const Variant& variant : variants) {
    measurements.push_back({variant.name, {}});
    variant.measure();
  }
  for (int round = 0; round < repetitions; ++round) {
    for (std::size_t i = 0; i < variants.size(); ++i) {
      measurements[i].values.push_back(variants[i].measure());
    }
  }
  return measurements;
}

Measurement ratio(std::string name, const Measurement& of, const Measurement& to) {
  Measurement result{std::move(name), {}};
  for (std::size_t i = 0; i < std::min(of.values.size(), to.values.size()); ++i) {
    result.values.push_back(of.values[i] / to.values[i]);
  }
  return result;
}

double quantile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  const double place = p * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(std::floor(place));
  const auto above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - std::floor(place));
}

// --- Consuming ---

namespace {

constexpr std::size_t kCacheLine = 64;

std::uint64_t touch_lines(std::span<const std::byte> bytes) {
  std::uint64_t sum = 0;
  for (std::size_t at = 0; at + sizeof(sum) <= bytes.size(); at += kCacheLine) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, sizeof(word));
    sum += word;
  }
  return sum;
}

}  // namespace

std::string_view suffix(Consumer consumer) {
  switch (consumer) {
    case Consumer::kDrops:
      return "";
    case Consumer::kTouches:
      return ", touched";
    case Consumer::kHashes:
      return ", hashed";
  }
  return "";
}

std::uint64_t consume(Consumer consumer, std::span<const std::byte> bytes) {
  switch (consumer) {
    case Consumer::kDrops:
      return 0;
    case Consumer::kTouches:
      return touch_lines(bytes);
    case Consumer::kHashes:
      return xxh3_64(bytes);
  }
  return 0;
}

void keep(std::uint64_t value) { asm volatile("" : : "r"(value) : "memory"); }

}  // namespace energon::bench
