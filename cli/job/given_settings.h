// The settings of a command line as JSON, for results that are compared later.

#pragma once

#include <string>
#include <vector>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

namespace energon::cli {

/// The options of `command` in the order of --help but `except`, each with its value as on the
/// command line: as a text, several as a list, a flag as true or false. An option that was not
/// given has its default; null if --help shows none. Call it after the command line was parsed.
nlohmann::ordered_json given_settings(const CLI::App& command,
                                      const std::vector<std::string>& except);

}  // namespace energon::cli
