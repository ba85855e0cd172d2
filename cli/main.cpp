// The program `energon`: finds the sub-command, runs it, and says in one line what went wrong.

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

// The first option of the command line that the chosen command does not have; empty: none.
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

// CLI11 only says that a sub-command is required, not that it does not know the one given. It takes
// the value of an unknown option for a further PATH, and complains of that first.
std::string describe(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  if (const std::string option = unknown_option(app); !option.empty()) {
    const auto nearest = nearest_name(option.substr(0, option.find('=')), flags_of(app));
    return fmt::format("there is no option {}{}", printable(option),
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
  return fmt::format("there is no sub-command '{}', there are: {}", printable(first), names);
}

// An option that was given with an empty value, as by a shell variable that is not set; empty:
// none. A key, and what is looked for, may be empty.
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

// `energon run` was called `energon dump` at first. Scripts may still say so; help does not.
std::vector<std::string> with_current_name(int argc, char** argv) {
  std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && words.front() == "dump") {
    words.front() = "run";
  }
  std::reverse(words.begin(), words.end());  // as CLI::App::parse() takes them
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
        app, fmt::format("{}: the value is empty; leave the option out for its default", option));
  }
  try {
    const int code = run();
    output().flush();
    return code;
  } catch (const Error&) {
    output().flush();  // what was delivered before the failure
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
    // Library messages name members, which are flags here; errors in documents name their keys.
    const std::string& path = error.context().path.value_or("");
    print_error(path.ends_with(".yaml")
                    ? error.what()
                    : with_option_names(error.what(), OptionCaller::kCommandLine));
    return is_interrupted ? kExitSignal + interrupt_signal() : kExitFailure;
  } catch (const std::system_error& error) {
    print_error(
        fmt::format("the system gives no thread or memory: {}; raise its limits (ulimit -u, -v)",
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
