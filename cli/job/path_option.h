// The argument PATH: what a dataset is read from.

#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace energon::cli {

enum class PathCount : std::uint8_t {
  kOne,
  kSeveral,  ///< tars, as a shell makes them of data/*.tar
};

/// Adds PATH, which is required, to `command`. Several tars become one brace pattern of them.
void add_path(CLI::App& command, std::string& path, PathCount count);

}  // namespace energon::cli
