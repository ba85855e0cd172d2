// The option --strict-tars of all commands that open or scan tars.

#pragma once

#include <CLI/CLI.hpp>

#include "io/tar/shard_scan.h"

namespace energon::cli {

inline void add_strict_tars(CLI::App& command, bool& is_given) {
  command.add_flag("--strict-tars", is_given,
                   "A tar that does not end with zero blocks, so may have been cut, or that has "
                   "other data\nbehind them, is an error; else it is a warning");
}

inline ScanStrictness strictness(bool is_strict) {
  return is_strict ? ScanStrictness::kStrict : ScanStrictness::kNormal;
}

}  // namespace energon::cli
