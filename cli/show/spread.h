// How values of repetitions lie.

#pragma once

#include <vector>

namespace energon::cli {

/// Quartiles are interpolated. The middle half of the values lies between the first and the third.
struct Spread {
  double median = 0;
  double min = 0;
  double max = 0;
  double first_quartile = 0;
  double third_quartile = 0;
};

/// Requires: `values` is not empty.
Spread spread_of(std::vector<double> values);

/// The value below which the fraction `quantile` of `values` lies, interpolated. Requires:
/// 0 <= quantile <= 1; `values` is sorted and not empty.
double quantile_of_sorted(const std::vector<double>& values, double quantile);

/// True if some value may belong to both: the ranges from min to max touch.
bool overlap(const Spread& first, const Spread& second);

}  // namespace energon::cli
