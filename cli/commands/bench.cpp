// energon bench: measures how fast the loader delivers the user's data, and compares two results.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "bench/support/machine.h"
#include "cli/command.h"
#include "cli/commands/throughput.h"
#include "cli/commands/throughput_comparison.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/loader_flags.h"
#include "cli/output.h"
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

// --- Settings ---

nlohmann::ordered_json value_of(const CLI::Option& option) {
  if (option.get_items_expected_max() == 0) {
    return option.count() > 0;
  }
  if (option.count() > 1) {
    return option.results();
  }
  if (option.count() == 1) {
    return option.results().front();
  }
  const std::string standard = option.get_default_str();
  return standard.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(standard);
}

/// The settings of a command line as JSON, to compare results later: the options of `command`
/// except `except`, in the order of --help. A value is a string as on the command line, a list of
/// strings, or a boolean for a flag. An option that was not given has its default, or null if
/// --help shows none. Call it after the command line was parsed.
nlohmann::ordered_json given_settings(const CLI::App& command,
                                      const std::vector<std::string>& except) {
  nlohmann::ordered_json settings = nlohmann::ordered_json::object();
  for (const CLI::Option* const option : command.get_options()) {
    const std::string name = option->get_name();
    const std::string last = name.substr(name.rfind(',') + 1);  // of "-h,--help"
    if (std::find(except.begin(), except.end(), last) == except.end()) {
      settings[last] = value_of(*option);
    }
  }
  return settings;
}

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

// --- Measuring ---

void show(const Throughput& result, const nlohmann::ordered_json& settings,
          const nlohmann::ordered_json& machine, const BenchFlags& flags) {
  if (!flags.json.empty()) {
    const std::string json = indented_json(to_json(result, settings, machine)) + "\n";
    save_bytes(flags.json, as_bytes(json));
  }
  if (flags.json != kStandardOutput) {
    output().write(to_text(result));
  }
}

int measure(const CLI::App& command, BenchFlags& flags) {
  if (flags.loader.path.empty()) {
    throw UsageError{"specify PATH, or --compare with two results"};
  }
  if (flags.has_any_settings) {
    throw UsageError{"--any-settings needs --compare"};
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
    print_warning("interrupted; the numbers cover the time until then");
  }
  if (const std::string warning = bench::build_warning(); !warning.empty()) {
    print_warning(warning);
  }
  show(result, settings_of(command, flags), machine, flags);
  return signal != 0 ? kExitSignal + signal : kExitOk;
}

// --- Comparing ---

// Refuses options of a measurement, because they would have no effect.
void check_alone(const CLI::App& command) {
  for (const CLI::Option* const option : command.get_options()) {
    const std::string name = option->get_name();
    if (option->count() > 0 && name != "--compare" && name != "--any-settings") {
      throw UsageError{fmt::format("--compare only reads two results: omit {}", name)};
    }
  }
}

int compare(const CLI::App& command, const BenchFlags& flags) {
  check_alone(command);
  const SavedThroughput first = read_throughput(flags.compared[0]);
  const SavedThroughput second = read_throughput(flags.compared[1]);
  const std::vector<std::string> differences = different_settings(first, second);
  if (!differences.empty() && !flags.has_any_settings) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format(
            "the results have different settings: {}; use --any-settings to compare them anyway",
            fmt::join(differences, ", ")));
  }
  output().write(comparison_text(first, second));
  return kExitOk;
}

// --- Options ---

void add_measuring_flags(CLI::App& command, MeasuringFlags& flags) {
  command
      .add_option(
          "--seconds", flags.seconds,
          "End a repetition after this many seconds [default: 2 without --limit and --epochs]")
      ->check(seconds());
  add_limit(command, flags.limit, 1, "End a repetition after N batches");
  command.add_option("--repetitions", flags.repetitions, "Number of consecutive measurements")
      ->capture_default_str()
      ->check(at_least(1));
  command
      .add_option("--warmup-batches", flags.warmup_batches,
                  "Batches to run before measuring; with --epochs, also to the end of an epoch.\n"
                  "0 means no warm-up [default: as long as a repetition]")
      ->check(at_least(0));
  command.add_flag("--touch,!--no-touch", flags.is_touched,
                   "Read every byte of the batches, as a trainer does [on]");
  add_progress(command, flags.is_progress_shown);
}

}  // namespace

void add_bench(CLI::App& app, Run& run) {
  CLI::App* const command = app.add_subcommand(
      "bench", "Measure the loader's throughput on your data, or compare two results");
  const auto flags = std::make_shared<BenchFlags>();
  add_loader_flags(*command, flags->loader, PathCount::kSeveral);
  command->get_option("PATH")->required(false);
  add_measuring_flags(*command, flags->measuring);
  command->add_option("--json", flags->json,
                      "Write the result as JSON, with settings and machine, to this file ('-' = "
                      "standard output, instead of the text)");
  command
      ->add_option("--compare", flags->compared,
                   "Compare two results written by --json instead of measuring: ratios, and "
                   "whether the repetitions overlap")
      ->expected(2);
  command->add_flag("--any-settings", flags->has_any_settings,
                    "With --compare: allow different settings");
  command->callback([flags, command, &run] {
    run = [flags, command] {
      return flags->compared.empty() ? measure(*command, *flags) : compare(*command, *flags);
    };
  });
}

}  // namespace energon::cli
