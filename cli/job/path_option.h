// The argument PATH: the data to read.

#pragma once

#include <cstdint>
#include <string>

#include <CLI/CLI.hpp>

namespace energon::cli {

enum class PathCount : std::uint8_t {
  kOne,
  kSeveral,  ///< tars, as when a shell expands data/*.tar
};

/// Adds the required argument PATH to `command`. Several tars become one brace pattern.
void add_path(CLI::App& command, std::string& path, PathCount count);

}  // namespace energon::cli
