// energon analyze: how random the order was in which samples were delivered, from debug logs.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli/commands/command.h"
#include "cli/job/order_log.h"
#include "cli/show/heat_map_image.h"
#include "cli/show/order_analysis.h"
#include "cli/show/output.h"
#include "io/error.h"

namespace energon::cli {
namespace {

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
      "mean distance of neighbours: {:.3f} of a random order's\n"
      "longest run of neighbours: {}\n",
      plural(static_cast<std::int64_t>(logs), "log"),
      plural(figures.unique_samples, "unique sample key"), plural(figures.steps, "step"),
      plural(figures.deliveries, "delivered sample"), figures.least_seen, figures.most_seen,
      figures.mean_seen, figures.rank_correlation, figures.neighbour_distance,
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
                                       {"neighbour_distance", figures.neighbour_distance},
                                       {"longest_run", figures.longest_run}};
  output().print("{}\n", json.dump(2));
}

int run_analyze(const AnalyzeFlags& flags) {
  const std::vector<std::string> files = expand_patterns(flags.logs, "log");
  const DeliveredOrder order = read_order(files);
  for (const std::string& warning : order.warnings) {
    print_warning(warning);
  }
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
      "Tell from debug logs how random the order of the samples was; their place in the data is "
      "taken from\nthe order of their keys, digits as numbers");
  const auto flags = std::make_shared<AnalyzeFlags>();
  command
      ->add_option("LOGS", flags->logs,
                   "Debug logs or patterns of them; those of workers count only without those of "
                   "loaders")
      ->required();
  command->add_option("--heatmap", flags->heat_map,
                      "Picture of step and sample: a file that ends in .svg or .png");
  command->add_option("--steps", flags->steps, "Width of the picture, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxPictureEdge));
  command->add_option("--samples", flags->samples, "Height of the picture, at most")
      ->capture_default_str()
      ->check(CLI::Range(1, kMaxPictureEdge));
  command->add_flag("--json", flags->is_json, "Result as JSON");
  command->callback([flags, &run] { run = [flags] { return run_analyze(*flags); }; });
}

}  // namespace energon::cli
