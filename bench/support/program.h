// The frame of a benchmark program: common options, one-line errors, output of the report.

#pragma once

#include <functional>
#include <string>

#include <CLI/CLI.hpp>

#include "bench/support/report.h"

namespace energon::bench {

struct CommonOptions {
  /// Folder in which datasets are created and kept.
  std::string data_folder;
  /// Number of rounds after the warm-up round.
  int repetitions = 5;
  /// File for the JSON report. Empty means none.
  std::string json_path;
};

/// Parses the command line, runs `body`, prints and writes the report. Returns the exit code.
/// `add_options` adds the program's own options.
int run_program(int argc, char** argv, const std::string& name, const std::string& question,
                const std::function<void(CLI::App&)>& add_options,
                const std::function<void(const CommonOptions&, Report&)>& body);

}  // namespace energon::bench
