#include "cli/show/order_analysis.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <unordered_map>

namespace energon::cli {
namespace {

bool is_digit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

// Takes the run of digits at the start of `text`, without leading zeros.
std::string_view take_number(std::string_view& text) {
  const std::size_t end =
      static_cast<std::size_t>(std::find_if_not(text.begin(), text.end(), is_digit) - text.begin());
  std::string_view number = text.substr(0, end);
  text.remove_prefix(end);
  number.remove_prefix(std::min(number.find_first_not_of('0'), number.size()));
  return number;
}

std::vector<std::size_t> flatten(const SamplePositions& positions) {
  std::vector<std::size_t> flat;
  for (const auto& step : positions.steps) {
    flat.insert(flat.end(), step.begin(), step.end());
  }
  return flat;
}

// Pearson's correlation of time and the mean rank of each position: Spearman's, with ties.
double rank_correlation(const std::vector<std::size_t>& order,
                        const std::vector<std::int64_t>& seen) {
  std::vector<double> rank(seen.size());
  double before = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    rank[i] = before + static_cast<double>(seen[i] - 1) / 2;
    before += static_cast<double>(seen[i]);
  }
  const double mean = (before - 1) / 2;  // of times and of ranks
  double product = 0;
  double time_square = 0;
  double rank_square = 0;
  for (std::size_t time = 0; time < order.size(); ++time) {
    const double t = static_cast<double>(time) - mean;
    const double r = rank[order[time]] - mean;
    product += t * r;
    time_square += t * t;
    rank_square += r * r;
  }
  return time_square > 0 && rank_square > 0 ? product / std::sqrt(time_square * rank_square) : 0;
}

}  // namespace

bool is_naturally_before(std::string_view a, std::string_view b) {
  const std::string_view whole_a = a;
  const std::string_view whole_b = b;
  while (!a.empty() && !b.empty()) {
    if (is_digit(a.front()) && is_digit(b.front())) {
      const std::string_view number_a = take_number(a);
      const std::string_view number_b = take_number(b);
      if (number_a != number_b) {
        return number_a.size() != number_b.size() ? number_a.size() < number_b.size()
                                                  : number_a < number_b;
      }
    } else if (a.front() != b.front()) {
      return a.front() < b.front();
    } else {
      a.remove_prefix(1);
      b.remove_prefix(1);
    }
  }
  // "07" and "7" are different keys.
  return a.empty() && b.empty() ? whole_a < whole_b : a.size() < b.size();
}

SamplePositions positions_of(const std::vector<std::vector<std::string>>& steps) {
  std::unordered_map<std::string_view, std::size_t> position_of;
  for (const auto& step : steps) {
    for (const std::string& key : step) {
      position_of.emplace(key, 0);
    }
  }
  std::vector<std::string_view> keys;
  keys.reserve(position_of.size());
  for (const auto& [key, position] : position_of) {
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end(), is_naturally_before);
  for (std::size_t i = 0; i < keys.size(); ++i) {
    position_of[keys[i]] = i;
  }
  SamplePositions positions{.sample_count = keys.size()};
  for (const auto& step : steps) {
    auto& row = positions.steps.emplace_back();
    for (const std::string& key : step) {
      row.push_back(position_of[key]);
    }
  }
  return positions;
}

OrderFigures analyze_order(const SamplePositions& positions) {
  const std::vector<std::size_t> order = flatten(positions);
  OrderFigures figures{.unique_samples = static_cast<std::int64_t>(positions.sample_count),
                       .steps = static_cast<std::int64_t>(positions.steps.size()),
                       .deliveries = static_cast<std::int64_t>(order.size())};
  if (order.empty()) {
    return figures;
  }
  std::vector<std::int64_t> seen(positions.sample_count);
  for (const std::size_t position : order) {
    ++seen[position];
  }
  const auto [least, most] = std::minmax_element(seen.begin(), seen.end());
  figures.least_seen = *least;
  figures.most_seen = *most;
  figures.mean_seen = static_cast<double>(order.size()) / static_cast<double>(seen.size());
  figures.rank_correlation = rank_correlation(order, seen);
  double distances = 0;
  std::int64_t run = 1;
  figures.longest_run = 1;
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::size_t distance =
        order[i] > order[i - 1] ? order[i] - order[i - 1] : order[i - 1] - order[i];
    distances += static_cast<double>(distance);
    run = distance == 1 ? run + 1 : 1;
    figures.longest_run = std::max(figures.longest_run, run);
  }
  if (order.size() > 1) {
    const double expected = static_cast<double>(positions.sample_count + 1) / 3;
    figures.neighbour_distance = distances / static_cast<double>(order.size() - 1) / expected;
  }
  return figures;
}

HeatMap heat_map(const SamplePositions& positions, std::size_t max_columns, std::size_t max_rows) {
  HeatMap map{.columns = std::min(positions.steps.size(), max_columns),
              .rows = std::min(positions.sample_count, max_rows)};
  map.counts.resize(map.columns * map.rows);
  for (std::size_t step = 0; step < positions.steps.size(); ++step) {
    const std::size_t column = step * map.columns / positions.steps.size();
    for (const std::size_t position : positions.steps[step]) {
      const std::size_t row = position * map.rows / positions.sample_count;
      ++map.counts[row * map.columns + column];
    }
  }
  return map;
}

}  // namespace energon::cli
