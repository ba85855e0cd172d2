// What every sub-command has in common: how it is added to the program, and its exit codes.
//
// Each sub-command has one file. Its add_…() function declares options and leaves behind what is to
// run; main.cpp parses, runs the chosen one and turns every failure into one line on stderr.

#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

namespace energon::cli {

inline constexpr int kExitOk = 0;
inline constexpr int kExitFailure =
    1;                                ///< bad data, missing files, a dead worker, findings of lint
inline constexpr int kExitUsage = 2;  ///< the command line itself is wrong
inline constexpr int kExitSignal = 128;  ///< plus the number of the signal: 130 after Ctrl-C

/// The command line is understood but contradicts itself: shown with a hint to --help.
struct UsageError {
  std::string message;
};

/// What the chosen sub-command does; returns the exit code. May throw Error and UsageError.
using Run = std::function<int()>;

// Each adds one sub-command to `app`; when it is chosen on the command line, it sets `run`.
void add_prepare(CLI::App& app, Run& run);
void add_info(CLI::App& app, Run& run);
void add_lint(CLI::App& app, Run& run);
void add_preview(CLI::App& app, Run& run);
void add_dump(CLI::App& app, Run& run);
void add_get(CLI::App& app, Run& run);
void add_certify(CLI::App& app, Run& run);
void add_checkpoint(CLI::App& app, Run& run);
void add_which(CLI::App& app, Run& run);
void add_bench(CLI::App& app, Run& run);
void add_analyze(CLI::App& app, Run& run);

}  // namespace energon::cli
