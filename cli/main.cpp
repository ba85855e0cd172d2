// The program `energon`: runs the chosen subcommand and reports an error in one line.

#include <exception>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include "cli/command.h"
#include "cli/flags.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/option_text.h"
#include "wrappers/recipe/options.h"

namespace energon::cli {
namespace {

// --- The command line ---

void add_commands(CLI::App& app, Run& run) {
  app.set_version_flag("-V,--version", std::string(writer_version()), "Print the version");
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  add_prepare(app, run);
  add_prepare_media(app, run);
  add_info(app, run);
  add_lint(app, run);
  add_preview(app, run);
  add_run(app, run);
  add_get(app, run);
  add_exclude(app, run);
  add_checkpoint(app, run);
  add_which(app, run);
  add_certify(app, run);
  add_bench(app, run);
  add_analyze(app, run);
  add_options(app, run);
}

std::string chosen_command(const CLI::App& app) {
  std::string name = "energon";
  const CLI::App* level = &app;
  while (!level->get_subcommands().empty()) {
    level = level->get_subcommands().front();
    name += " " + level->get_name();
  }
  return name;
}

int report_usage(const CLI::App& app, const std::string& message) {
  print_error(fmt::format("{} (see {} --help)", message, chosen_command(app)));
  return kExitUsage;
}

// The first option on the command line that the chosen command does not have, or an empty string.
std::string unknown_option(const CLI::App& app) {
  for (const std::string& word : app.remaining(true)) {
    if (word.size() > 1 && word.front() == '-') {
      return word;
    }
  }
  return "";
}

// The flags of the chosen command.
std::vector<std::string> flags_of(const CLI::App& app) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
  }
  std::vector<std::string> flags;
  for (const CLI::Option* const option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) {
      flags.push_back("--" + name);
    }
  }
  return flags;
}

// CLI11 reports that a subcommand is required, not that the given one is unknown. It takes the
// value of an unknown option for another PATH, and reports that first.
std::string describe(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  if (const std::string option = unknown_option(app); !option.empty()) {
    const auto nearest = nearest_name(option.substr(0, option.find('=')), flags_of(app));
    return fmt::format("unknown option {}{}", printable(option),
                       nearest ? fmt::format("; did you mean {}?", *nearest) : "");
  }
  const std::string first = argc > 1 ? argv[1] : "";
  if (!app.get_subcommands().empty() || first.empty() || first.starts_with('-')) {
    return error.what();
  }
  std::string names;
  for (const CLI::App* const command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names += (names.empty() ? "" : ", ") + command->get_name();
  }
  return fmt::format("unknown command '{}', expected one of: {}", printable(first), names);
}

// The first option with an empty value, such as from an unset shell variable, or an empty string.
// An empty key is valid.
std::string empty_option(const CLI::App& app) {
  for (const CLI::App* command : app.get_subcommands()) {
    for (const CLI::Option* option : command->get_options()) {
      const bool may_be_empty = option->check_lname("key") || option->check_lname("only");
      for (const std::string& value : option->results()) {
        if (value.empty() && !may_be_empty && option->get_expected_min() > 0) {
          return option->get_name();
        }
      }
    }
    if (std::string inner = empty_option(*command); !inner.empty()) {
      return inner;
    }
  }
  return "";
}

// Accepts `energon dump`, an old name of `energon run` that --help does not list.
std::vector<std::string> with_current_name(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "dump") {
    words.front() = "run";
  }
  std::reverse(words.begin(), words.end());  // the order that CLI::App::parse() expects
  return words;
}

int run_command(CLI::App& app, Run& run, int argc, char** argv) {
  try {
    app.parse(with_current_name(argc, argv));
  } catch (const CLI::CallForHelp&) {
    output().write(app.help());
    output().flush();
    return kExitOk;
  } catch (const CLI::CallForVersion& version) {
    output().print("{}\n", version.what());
    output().flush();
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return report_usage(app, describe(error, app, argc, argv));
  }
  if (const std::string option = empty_option(app); !option.empty()) {
    return report_usage(
        app, fmt::format("{}: the value is empty; omit the option to use its default", option));
  }
  try {
    const int code = run();
    output().flush();
    return code;
  } catch (const Error&) {
    output().flush();  // batches delivered before the failure
    throw;
  } catch (const UsageError& error) {
    return report_usage(app, error.message);
  }
}

int run_main(int argc, char** argv) {
  CLI::App app(
      "Native multimodal WebDataset loader: prepare, inspect, load, resume and measure datasets.\n"
      "PATH is a prepared dataset's folder, a metadataset.yaml, a JSONL file, a folder of tars, "
      "one\n"
      "tar, or a brace pattern such as 'data/{000..099}.tar'.",
      "energon");
  Run run;
  try {
    add_commands(app, run);
    return run_command(app, run, argc, argv);
  } catch (const ClosedOutput&) {
    return kExitOk;
  } catch (const Error& error) {
    const bool is_interrupted = error.code() == ErrorCode::kCancelled && interrupt_signal() != 0;
    // Library messages name members, which are flags here; errors in YAML files name keys.
    const std::string& path = error.context().path.value_or("");
    print_error(path.ends_with(".yaml")
                    ? error.what()
                    : with_option_names(error.what(), OptionCaller::kCommandLine));
    return is_interrupted ? kExitSignal + interrupt_signal() : kExitFailure;
  } catch (const std::system_error& error) {
    print_error(fmt::format("out of threads or memory: {}; raise the limits (ulimit -u, -v)",
                            error.code().message()));
    return kExitFailure;
  } catch (const std::exception& error) {
    print_error(fmt::format("unexpected: {}", error.what()));
    return kExitFailure;
  }
}

}  // namespace
}  // namespace energon::cli

int main(int argc, char** argv) {
  energon::cli::catch_interrupts();
  return energon::cli::run_main(argc, argv);
}
