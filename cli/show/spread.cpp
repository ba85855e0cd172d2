#include "cli/show/spread.h"

#include <algorithm>
#include <cstddef>

namespace energon::cli {

Spread spread_of(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return {.median = quantile_of_sorted(values, 0.5),
          .min = values.front(),
          .max = values.back(),
          .first_quartile = quantile_of_sorted(values, 0.25),
          .third_quartile = quantile_of_sorted(values, 0.75)};
}

double quantile_of_sorted(const std::vector<double>& values, double quantile) {
  const double place = quantile * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (values[above] - values[below]) * (place - static_cast<double>(below));
}

bool overlap(const Spread& first, const Spread& second) {
  return first.min <= second.max && second.min <= first.max;
}

}  // namespace energon::cli
