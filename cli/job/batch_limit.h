// The option --limit of the commands that run a loader.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

namespace energon::cli {

/// Declares --limit, a number of batches from `least` up; `help` says what then ends. `limit` must
/// live as long as `command`.
void add_limit(CLI::App& command, std::optional<std::int64_t>& limit, std::int64_t least,
               const std::string& help);

}  // namespace energon::cli
