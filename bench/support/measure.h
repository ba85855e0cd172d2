// Measures variants in turn for comparison, and consumes the bytes that they deliver.

#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon::bench {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin);

/// One of several variants to compare.
struct Variant {
  std::string name;
  /// One repetition; returns its value, such as samples/s.
  std::function<double()> measure;
};

/// The values of one variant, in the order in which they were measured.
struct Measurement {
  std::string name;
  std::vector<double> values;

  double median() const;
  double min() const;
  double max() const;
};

/// Runs one warm-up round, whose values are dropped, then `repetitions` rounds. Each round measures
/// every variant once, so that other load on the machine affects all variants alike.
std::vector<Measurement> measure_in_turn(const std::vector<Variant>& variants, int repetitions);

/// The ratios `of` / `to`, repetition by repetition.
Measurement ratio(std::string name, const Measurement& of, const Measurement& to);

/// The `p`-quantile of `values`. Requires: 0 <= p <= 1, `values` not empty.
double quantile(std::vector<double> values, double p);

/// How the consumer of a benchmark uses the bytes.
enum class Consumer {
  kDrops,    ///< nothing: the bytes stay in memory, ready to be read
  kTouches,  ///< reads one word of each cache line
  kHashes,   ///< hashes every byte with XXH3
};

/// ", touched" and so on, for the name of a variant.
std::string_view suffix(Consumer consumer);

/// Consumes `bytes`. The result depends on all bytes read, so that the compiler cannot remove the
/// reads.
std::uint64_t consume(Consumer consumer, std::span<const std::byte> bytes);

/// Prevents the compiler from optimizing away an otherwise unused value.
void keep(std::uint64_t value);

}  // namespace energon::bench
