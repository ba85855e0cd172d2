// What a result is worth nothing without: where it was measured, and how it was built.

#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace energon::bench {

/// CPU, cores, memory, kernel, compiler, build type, date and load.
nlohmann::ordered_json describe_machine();

/// Why numbers of this build must not be published; empty if they may.
std::string build_warning();

}  // namespace energon::bench
