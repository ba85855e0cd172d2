// The program `energon`: finds the sub-command, runs it, and says in one line what went wrong.

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <exception>
#include <string>
#include <string_view>
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

namespace energon::cli {
namespace {

// --- Names of flags ---
//
// Library messages name options of the library's interface; on the command line, these are flags.

constexpr std::array<std::pair<std::string_view, std::string_view>, 16> kFlags = {{
    {"num_workers", "--num-workers"},
    {"world_size", "--world-size"},
    {"logical_shards", "--logical-shards"},
    {"allow_uneven", "--uneven"},
    {"seed_offset", "--seed-offset"},
    {"batch_size", "--batch-size"},
    {"shuffle_buffer_size", "--shuffle-buffer-size"},
    {"max_samples_per_sequence", "--max-samples-per-sequence"},
    {"parallel_slices", "--parallel-slices"},
    {"shuffle_over_epochs", "--shuffle-over-epochs"},
    {"virtual_epoch_length", "--virtual-epoch-length"},
    {"prefetch_factor", "--prefetch-factor"},
    {"checkpoint_every_batches", "--checkpoint-every-batches"},
    {"checkpoint_history", "--checkpoint-history"},
    {"checkpoint_history_bytes", "--checkpoint-history-mib"},
    {"cache_dir", "--cache-dir"},
}};

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// What stands beside a name in a path, a key or a member of a configuration.
bool joins(char c) { return is_word(c) || c == '/' || c == '-' || c == '.' || c == '"'; }

/// `message` with the names of options (num_workers) replaced by the flags (--num-workers) that set
/// them. A name inside a longer word or a path stays.
std::string with_flag_names(std::string_view message) {
  std::string result;
  std::size_t i = 0;
  while (i < message.size()) {
    const auto end = static_cast<std::size_t>(
        std::find_if_not(message.begin() + static_cast<std::ptrdiff_t>(i), message.end(), is_word) -
        message.begin());
    if (end == i) {
      result += message[i++];
      continue;
    }
    const std::string_view word = message.substr(i, end - i);
    const auto* const flag = std::find_if(kFlags.begin(), kFlags.end(),
                                          [&](const auto& entry) { return entry.first == word; });
    const bool is_part = (i > 0 && joins(message[i - 1])) ||
                         (end + 1 < message.size() && joins(message[end]) &&
                          joins(message[end + 1]));  // not the full stop of a sentence
    result += flag == kFlags.end() || is_part ? word : flag->second;
    i = end;
  }
  return result;
}

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

// CLI11 only says that a sub-command is required, not that it does not know the one given. It takes
// the value of an unknown option for a further PATH, and complains of that first.
std::string describe(const CLI::ParseError& error, const CLI::App& app, int argc, char** argv) {
  if (const std::string option = unknown_option(app); !option.empty()) {
    return fmt::format("there is no option {}", printable(option));
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
    // What is wrong in a document is said in its own words.
    const std::string& path = error.context().path.value_or("");
    print_error(path.ends_with(".yaml") ? error.what() : with_flag_names(error.what()));
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
