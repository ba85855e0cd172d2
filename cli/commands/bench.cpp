// energon bench: how fast the loader delivers the user's own data, and whether one run was faster
// than another.

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "bench/support/machine.h"
#include "cli/commands/command.h"
#include "cli/job/at_least.h"
#include "cli/job/batch_limit.h"
#include "cli/job/given_settings.h"
#include "cli/job/interrupt.h"
#include "cli/job/loader_flags.h"
#include "cli/job/save_parts.h"
#include "cli/job/seconds.h"
#include "cli/job/throughput_run.h"
#include "cli/job/writable_target.h"
#include "cli/show/output.h"
#include "cli/show/saved_throughput.h"
#include "cli/show/throughput.h"
#include "cli/show/throughput_comparison.h"
#include "io/error.h"

namespace energon::cli {
namespace {

constexpr double kDefaultSeconds = 2;
constexpr std::string_view kStandardOutput = "-";

struct BenchFlags {
  LoaderFlags loader;
  MeasuringFlags measuring;
  std::string json;
  std::vector<std::string> compared;
  bool has_any_settings = false;
};

nlohmann::ordered_json settings_of(const CLI::App& command, const BenchFlags& flags) {
  auto settings = given_settings(
      command, {"--help", "--json", "--compare", "--any-settings", "--progress", "PATH"});
  settings["PATH"] = std::filesystem::absolute(flags.loader.path).lexically_normal().native();
  settings["--touch"] = flags.measuring.is_touched;
  settings["--seconds"] = nullptr;
  if (flags.measuring.seconds) {
    settings["--seconds"] = fmt::format("{}", *flags.measuring.seconds);
  }
  return settings;
}

void show(const Throughput& result, const nlohmann::ordered_json& settings,
          const nlohmann::ordered_json& machine, const BenchFlags& flags) {
  if (!flags.json.empty()) {
    const std::string json = to_json(result, settings, machine).dump(2) + "\n";
    save_bytes(flags.json, as_bytes(json));
  }
  if (flags.json != kStandardOutput) {
    output().write(to_text(result));
  }
}

int measure(const CLI::App& command, BenchFlags& flags) {
  if (flags.loader.path.empty()) {
    throw UsageError{"PATH is required, or --compare with two results"};
  }
  if (flags.has_any_settings) {
    throw UsageError{"--any-settings is for --compare"};
  }
  if (!flags.json.empty() && flags.json != kStandardOutput) {
    check_writable(flags.json, "--json");
  }
  if (!flags.measuring.limit && !flags.loader.epochs && !flags.measuring.seconds) {
    flags.measuring.seconds = kDefaultSeconds;
  }
  const nlohmann::ordered_json machine = bench::describe_machine();  // with the load before the run
  const Throughput result = ThroughputRun(flags.loader, flags.measuring).run();
  const int signal = interrupt_signal();
  if (result.repetitions.empty()) {
    print_warning("interrupted in the warm-up: nothing was measured");
    return kExitSignal + signal;
  }
  if (signal != 0) {
    print_warning("interrupted; these are the numbers until then");
  }
  if (const std::string warning = bench::build_warning(); !warning.empty()) {
    print_warning(warning);
  }
  show(result, settings_of(command, flags), machine, flags);
  return signal != 0 ? kExitSignal + signal : kExitOk;
}

// Refuses options that only a measurement has, because they would do nothing.
void check_alone(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != "--compare" && name != "--any-settings") {
      throw UsageError{
          fmt::format("--compare reads two results and measures nothing: leave out {}", name)};
    }
  }
}

int compare(const CLI::App& command, const BenchFlags& flags) {
  check_alone(command);
  const SavedThroughput first = read_throughput(flags.compared[0]);
  const SavedThroughput second = read_throughput(flags.compared[1]);
  const std::vector<std::string> differences = different_settings(first, second);
  if (!differences.empty() && !flags.has_any_settings) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("the results are of different settings: {}; --any-settings compares "
                            "them all the same",
                            fmt::join(differences, ", ")));
  }
  output().write(comparison_text(first, second));
  return kExitOk;
}

void add_measuring_flags(CLI::App& command, MeasuringFlags& flags) {
  command
      .add_option("--seconds", flags.seconds,
                  "End a repetition after so long; default: 2, unless --limit or --epochs end it")
      ->check(seconds());
  add_limit(command, flags.limit, 1, "End a repetition after so many batches");
  command.add_option("--repetitions", flags.repetitions, "Measurements, one after the other")
      ->capture_default_str()
      ->check(at_least(1));
  command
      .add_option("--warmup-batches", flags.warmup_batches,
                  "Batches before measuring begins, with --epochs up to the end of an epoch; 0:\n"
                  "none. Default: as many as a repetition takes")
      ->check(at_least(0));
  command.add_flag("--touch,!--no-touch", flags.is_touched, "Read every byte that is counted [on]");
  command.add_flag("--progress,!--no-progress", flags.is_progress_shown,
                   "Show a progress bar [on]");
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* const command =
      app.add_subcommand("bench",
                         "Measure the loader's throughput on your own data, or compare two results "
                         "of --json");
  const auto flags = std::make_shared<BenchFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kSeveral);
  command->get_option("PATH")->required(false);
  add_measuring_flags(*command, flags->measuring);
  command->add_option("--json", flags->json,
                      "Write the result with its settings and the machine to this file (-: instead "
                      "of the text)");
  command
      ->add_option("--compare", flags->compared,
                   "Measure nothing, but compare two results of --json: ratios, and whether the "
                   "repetitions overlap")
      ->expected(2);
  command->add_flag("--any-settings", flags->has_any_settings,
                    "With --compare: also results of different settings");
  command->callback([flags, command, &run] {
    run = [flags, command] {
      return flags->compared.empty() ? measure(*command, *flags) : compare(*command, *flags);
    };
  });
}

}  // namespace energon::cli
