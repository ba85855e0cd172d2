// Repetitions of things that are compared, taken in turn.

#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace energon::bench {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin);

/// One of several things that are compared.
struct Variant {
  std::string name;
  /// One repetition; returns its value, such as samples/s.
  std::function<double()> measure;
};

/// Values of one variant, in the order in which they were taken.
struct Measurement {
  std::string name;
  std::vector<double> values;

  double median() const;
  double min() const;
  double max() const;
};

/// One round to warm up, whose values are dropped, then `repetitions` rounds. A round takes each
/// variant once, so what else the machine does falls on all of them alike.
std::vector<Measurement> measure_in_turn(const std::vector<Variant>& variants, int repetitions);

/// Ratios of two measurements, repetition by repetition.
Measurement ratio(std::string name, const Measurement& of, const Measurement& to);

/// The `p`-quantile, 0 <= p <= 1, of values that are not empty.
double quantile(std::vector<double> values, double p);

}  // namespace energon::bench
