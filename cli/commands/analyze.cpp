// energon analyze: computes from debug logs how random the order of delivered samples was.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/decoded_file.h"
#include "cli/flags.h"
#include "cli/json_lines.h"
#include "cli/output.h"
#include "io/error.h"
#include "io/file.h"

namespace energon::cli {
namespace {

// --- Debug logs ---
//
// The order in which samples were delivered (energon/stage/debug_log.h).

/// The deliveries in a set of logs.
struct DeliveredOrder {
  /// Keys of the samples of each step; a step has one batch of each rank (or, if there are only
  /// worker logs, of each worker).
  std::vector<std::vector<std::string>> steps = {};
  std::int64_t batches = 0;
  std::vector<std::string> warnings = {};
};

using Json = nlohmann::json;

/// One batch of a log.
struct LoggedBatch {
  std::int64_t step = 0;
  std::int64_t rank = 0;
  std::optional<std::int64_t> worker;  ///< nullopt if the loader delivered it
  std::vector<std::string> keys;
};

// Returns nullopt for lines that do not describe a batch.
std::optional<LoggedBatch> to_batch(const Json& line) {
  const std::string type = text_in(line, "t");
  const bool is_delivered = type.ends_with(".yield");
  if (!is_delivered && type != "yield_batch") {
    return std::nullopt;
  }
  return LoggedBatch{.step = number_in(line, "idx"),
                     .rank = number_in(line, "r"),
                     .worker = is_delivered ? std::nullopt : std::optional(number_in(line, "w")),
                     .keys = keys_in(line).get<std::vector<std::string>>()};
}

/// Loader logs record what was delivered; if there are none, worker logs are used, which record
/// what was produced. Throws Error: kIo, kInvalidArgument with file and line for a line that is not
/// from such a log. An incomplete last line (the job is still running) becomes a warning.
DeliveredOrder read_order(const std::vector<std::string>& files) {
  DeliveredOrder order;
  std::vector<LoggedBatch> batches;
  for (const std::string& file : files) {
    const LastLine last = read_json_lines(file, "a debug log", [&](const Json& line) {
      if (auto batch = to_batch(line)) {
        batches.push_back(std::move(*batch));
      }
    });
    if (last == LastLine::kCut) {
      order.warnings.push_back(cut_line_warning(file));
    }
  }
  const auto is_delivered = [](const LoggedBatch& batch) { return !batch.worker; };
  if (std::any_of(batches.begin(), batches.end(), is_delivered)) {
    std::erase_if(batches, [&](const LoggedBatch& batch) { return !is_delivered(batch); });
  }
  // If several runs appended to a log, a step occurs several times: the sort keeps their order.
  std::stable_sort(batches.begin(), batches.end(), [](const LoggedBatch& a, const LoggedBatch& b) {
    return std::tuple(a.step, a.rank, a.worker) < std::tuple(b.step, b.rank, b.worker);
  });
  std::optional<std::int64_t> last;
  for (LoggedBatch& batch : batches) {
    if (last != batch.step) {
      last = batch.step;
      order.steps.emplace_back();
    }
    std::move(batch.keys.begin(), batch.keys.end(), std::back_inserter(order.steps.back()));
    ++order.batches;
  }
  return order;
}

// --- Figures ---
//
// Measures of how random an order is. They depend only on the delivered keys.

/// Samples in the order of delivery, each as its position in the natural order of keys.
struct SamplePositions {
  std::vector<std::vector<std::size_t>> steps = {};
  std::size_t sample_count = 0;  ///< distinct keys
};

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
  /// well, near 0 if neighbors stay together.
  double neighbor_distance = 0;
  /// The longest run of consecutive samples that are neighbors in the data.
  std::int64_t longest_run = 0;
};

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

/// Whether `a` comes before `b`: runs of digits compare as numbers.
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
    figures.neighbor_distance = distances / static_cast<double>(order.size() - 1) / expected;
  }
  return figures;
}

// --- Heat map ---
//
// Time runs from left to right, data from top to bottom; dark cells have many deliveries.

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

constexpr int kWhite = 255;

// Square root: single deliveries stay visible next to cells with many.
int grey_of(std::uint32_t count, std::uint32_t largest) {
  const double share = std::sqrt(static_cast<double>(count) / static_cast<double>(largest));
  return kWhite - static_cast<int>(std::lround(share * kWhite));
}

std::uint32_t largest_of(const HeatMap& map) {
  const auto largest = std::max_element(map.counts.begin(), map.counts.end());
  return largest == map.counts.end() ? 1 : std::max<std::uint32_t>(*largest, 1);
}

/// The SVG document.
std::string to_svg(const HeatMap& map) {
  const std::uint32_t largest = largest_of(map);
  std::string svg = fmt::format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {0} {1}" width="{0}" height="{1}" )"
      R"(shape-rendering="crispEdges">)"
      "\n<title>samples (downwards) by steps (to the right)</title>\n"
      R"(<rect width="{0}" height="{1}" fill="#fff"/>)"
      "\n",
      map.columns, map.rows);
  for (std::size_t row = 0; row < map.rows; ++row) {
    for (std::size_t column = 0; column < map.columns; ++column) {
      if (const std::uint32_t count = map.at(column, row); count > 0) {
        fmt::format_to(std::back_inserter(svg),
                       R"(<rect x="{}" y="{}" width="1" height="1" fill="#{:02x}{:02x}{:02x}"/>)"
                       "\n",
                       column, row, grey_of(count, largest), grey_of(count, largest),
                       grey_of(count, largest));
      }
    }
  }
  return svg + "</svg>\n";
}

/// 8-bit grayscale, one pixel per cell. Throws Error (kInternal) if libpng fails.
std::string to_png(const HeatMap& map) {
  const std::uint32_t largest = largest_of(map);
  std::vector<std::uint8_t> pixels;
  pixels.reserve(map.counts.size());
  for (const std::uint32_t count : map.counts) {
    pixels.push_back(static_cast<std::uint8_t>(grey_of(count, largest)));
  }
  return png_of_pixels(std::as_bytes(std::span(pixels)), static_cast<std::int64_t>(map.columns),
                       static_cast<std::int64_t>(map.rows), 1);
}

/// Writes `map` in the format of the suffix of `path`: .svg or .png. Throws UsageError for other
/// endings, Error (kIo).
void write_heat_map(const std::string& path, const HeatMap& map) {
  if (path.ends_with(".svg")) {
    write_file_atomically(path, as_bytes(to_svg(map)));
  } else if (path.ends_with(".png")) {
    write_file_atomically(path, as_bytes(to_png(map)));
  } else {
    throw UsageError{
        fmt::format("--heatmap: expected a file that ends in .svg or .png, found '{}'", path)};
  }
}

// --- The command ---

constexpr int kMaxPictureEdge = 4096;

struct AnalyzeFlags {
  std::vector<std::string> logs;
  std::string heat_map;
  std::int64_t steps = 1000;
  std::int64_t samples = 1000;
  bool is_json = false;
};

void print_text(const OrderFigures& figures, std::size_t logs) {
  output().print(
      "{}, {}, {}, {}\n"
      "each sample was delivered {} to {} times, {:.2f} on average\n"
      "rank correlation with the order of the keys: {:.3f} (1: as stored, 0: shuffled, -1: "
      "reversed)\n"
      "mean distance of neighbors: {:.3f} (relative to a random order)\n"
      "longest run of neighbors: {}\n",
      plural(static_cast<std::int64_t>(logs), "log"),
      plural(figures.unique_samples, "unique sample key"), plural(figures.steps, "step"),
      plural(figures.deliveries, "delivered sample"), figures.least_seen, figures.most_seen,
      figures.mean_seen, figures.rank_correlation, figures.neighbor_distance,
      with_separators(figures.longest_run));
}

void print_json(const OrderFigures& figures, std::size_t logs) {
  const nlohmann::ordered_json json = {{"logs", logs},
                                       {"unique_samples", figures.unique_samples},
                                       {"steps", figures.steps},
                                       {"deliveries", figures.deliveries},
                                       {"least_seen", figures.least_seen},
                                       {"mean_seen", figures.mean_seen},
                                       {"most_seen", figures.most_seen},
                                       {"rank_correlation", figures.rank_correlation},
                                       {"neighbor_distance", figures.neighbor_distance},
                                       {"longest_run", figures.longest_run}};
  output().print("{}\n", indented_json(json));
}

int run_analyze(const AnalyzeFlags& flags) {
  const std::vector<std::string> files = expand_patterns(flags.logs, "log");
  const DeliveredOrder order = read_order(files);
  print_warnings(order.warnings);
  if (order.batches == 0) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("no batches in {}", plural(static_cast<std::int64_t>(files.size()), "log")));
  }
  const SamplePositions positions = positions_of(order.steps);
  if (positions.sample_count == 0) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the batches in {} have no sample keys: there is no order to analyze",
                            plural(static_cast<std::int64_t>(files.size()), "log")));
  }
  if (!flags.heat_map.empty()) {
    write_heat_map(flags.heat_map, heat_map(positions, static_cast<std::size_t>(flags.steps),
                                            static_cast<std::size_t>(flags.samples)));
  }
  const OrderFigures figures = analyze_order(positions);
  if (flags.is_json) {
    print_json(figures, files.size());
  } else {
    print_text(figures, files.size());
  }
  return kExitOk;
}

}  // namespace

void add_analyze(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "analyze",
      "Compute from debug logs how random the order of samples was. Samples are placed in the\n"
      "data by the natural order of their keys (digits compare as numbers)");
  const auto flags = std::make_shared<AnalyzeFlags>();
  command
      ->add_option(
          "LOGS", flags->logs,
          "Debug logs or glob patterns. Worker logs are used only if there are no loader logs")
      ->required();
  command->add_option("--heatmap", flags->heat_map,
                      "Write a heat map of steps and samples to this file (.svg or .png)");
  command->add_option("--steps", flags->steps, "Maximum width of the heat map")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxPictureEdge));
  command->add_option("--samples", flags->samples, "Maximum height of the heat map")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxPictureEdge));
  command->add_flag("--json", flags->is_json, "Print the result as JSON");
  on_run(*command, flags, run, run_analyze);
}

}  // namespace energon::cli
