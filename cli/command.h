// The subcommands of the program, and how they are added to it.
//
// Each subcommand has one file. Its add_…() function declares options and stores the function to
// run; main.cpp parses the command line, runs the chosen subcommand and reports every failure as
// one line on stderr.

#pragma once

#include <functional>
#include <memory>

#include <CLI/CLI.hpp>

namespace energon::cli {

// Exit codes of subcommands.
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure =
    1;  ///< bad data, missing files, a dead worker, problems that lint found
inline constexpr int kExitUsage = 2;     ///< the command line itself is wrong
inline constexpr int kExitSignal = 128;  ///< plus the number of the signal: 130 after Ctrl-C

/// Runs the chosen subcommand and returns the exit code. May throw Error and UsageError
/// (cli/flags.h).
using Run = std::function<int()>;

/// Sets `run` to call `function` with `flags` when `command` is chosen on the command line.
template <class Flags>
void on_run(CLI::App& command, const std::shared_ptr<Flags>& flags, Run& run,
            int (*function)(const Flags&)) {
  command.callback(
      [flags, &run, function] { run = [flags, function] { return function(*flags); }; });
}

// Each adds one subcommand to `app`; when it is chosen on the command line, it sets `run`.
void add_prepare(CLI::App& app, Run& run);
void add_prepare_media(CLI::App& app, Run& run);
void add_info(CLI::App& app, Run& run);
void add_lint(CLI::App& app, Run& run);
void add_preview(CLI::App& app, Run& run);
void add_run(CLI::App& app, Run& run);
void add_get(CLI::App& app, Run& run);
void add_exclude(CLI::App& app, Run& run);
void add_certify(CLI::App& app, Run& run);
void add_checkpoint(CLI::App& app, Run& run);
void add_checkpoint_import(CLI::App& checkpoint, Run& run);  // called by add_checkpoint()
void add_which(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_analyze(CLI::App& app, Run& run);
void add_options(CLI::App& app, Run& run);

}  // namespace energon::cli
