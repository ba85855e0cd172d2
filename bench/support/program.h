// The frame of a benchmark program: options that all have, errors as one line, the report's output.

#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "bench/support/report.h"

namespace energon::bench {

struct CommonOptions {
  /// Data sets are made and kept here.
  std::string data_folder;
  /// Rounds after the one that warms up.
  int repetitions = 5;
  /// Where the report goes; empty: nowhere.
  std::string json_path;
};

/// Parses the command line, runs `body`, prints and writes the report. Returns the exit code.
/// `add_options` adds what only this program has.
int run_program(int argc, char** argv, const std::string& name, const std::string& question,
                const std::function<void(CLI::App&)>& add_options,
                const std::function<void(const CommonOptions&, Report&)>& body);

}  // namespace energon::bench
