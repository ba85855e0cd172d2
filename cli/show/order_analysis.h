// Measures how random an order is, with pure functions of the delivered keys.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace energon::cli {

/// Samples in the order of delivery, each as its position in the natural order of keys.
struct SamplePositions {
  std::vector<std::vector<std::size_t>> steps = {};
  std::size_t sample_count = 0;  ///< distinct keys
};

SamplePositions positions_of(const std::vector<std::vector<std::string>>& steps);

/// Whether `a` comes before `b`: runs of digits compare as numbers.
bool is_naturally_before(std::string_view a, std::string_view b);

struct OrderFigures {
  std::int64_t unique_samples = 0;
  std::int64_t steps = 0;
  std::int64_t deliveries = 0;  ///< samples, repetitions included
  std::int64_t least_seen = 0;  ///< how often the rarest sample was delivered
  double mean_seen = 0;
  std::int64_t most_seen = 0;
  /// Spearman's rank correlation of position and time: 1 as stored, -1 reversed, near 0 shuffled.
  double rank_correlation = 0;
  /// Mean distance of consecutive samples, relative to a random permutation: near 1 if shuffled
  /// well, near 0 if neighbours stay together.
  double neighbour_distance = 0;
  /// The longest run of consecutive samples that are neighbours in the data.
  std::int64_t longest_run = 0;
};

OrderFigures analyze_order(const SamplePositions& positions);

/// Number of deliveries by step (columns) and position (rows), each divided into equal parts, at
/// most `max_columns` and `max_rows`.
struct HeatMap {
  std::size_t columns = 0;
  std::size_t rows = 0;
  std::vector<std::uint32_t> counts = {};  ///< row by row

  std::uint32_t at(std::size_t column, std::size_t row) const {
    return counts[row * columns + column];
  }
};

HeatMap heat_map(const SamplePositions& positions, std::size_t max_columns, std::size_t max_rows);

}  // namespace energon::cli
