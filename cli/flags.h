// Options, and checks of their values, that several subcommands share.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "io/option_text.h"
#include "io/tar/shard_scan.h"

namespace energon::cli {

/// The command line is valid but contradicts itself. Reported with a hint to --help.
struct UsageError {
  std::string message;
};

/// Accepts whole numbers from `least` up; the error message contains the value and the bound.
CLI::Validator at_least(std::int64_t least);

/// Accepts decimal numbers of seconds, from a millisecond to thirty years, but not NaN. The error
/// message contains the value and the bounds.
CLI::Validator seconds();

/// Declares --limit, a number of batches from `least` up; `help` explains what ends there. `limit`
/// must live as long as `command`.
void add_limit(CLI::App& command, std::optional<std::int64_t>& limit, std::int64_t least,
               const std::string& help);

enum class PathCount : std::uint8_t {
  kOne,
  kSeveral,  ///< tars, as when a shell expands data/*.tar
};

/// Adds the required argument PATH to `command`. Several tars become one brace pattern.
void add_path(CLI::App& command, std::string& path, PathCount count);

/// Declares --num-workers of commands that scan shards, in threads.
void add_threads(CLI::App& command, std::optional<int>& threads);

/// What a command does with shards: scans all of them, or opens them like a loader.
enum class ShardUse : std::uint8_t { kScan, kRead };

/// Declares --cache-dir.
void add_cache_dir(CLI::App& command, std::optional<std::string>& cache_dir, ShardUse use);

/// Declares --progress and --no-progress; `is_shown` begins as true.
void add_progress(CLI::App& command, bool& is_shown);

/// Declares --strict-tars, an option of all commands that open or scan tars.
void add_strict_tars(CLI::App& command, bool& is_given);

/// The strictness that --strict-tars selects.
ScanStrictness strictness(bool is_strict);

/// Checks at the beginning of a long run that a file can be written at its end. Throws Error if
/// `path`, the value of `option`, cannot be written: kNotFound if its folder does not exist; kIo if
/// no file can be created in it, or if `path` is not a regular file and cannot be written to;
/// kInvalidArgument if it can never be an output (check_output()). Removes the file that it creates
/// for the check.
void check_writable(const std::string& path, const std::string& option);

}  // namespace energon::cli
