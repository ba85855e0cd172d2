// Describes the machine and the build of a measurement, without which a result means nothing.

#pragma once

#include <string>

#include <nlohmann/json.hpp>

namespace energon::bench {

/// CPU, cores, memory, kernel, compiler, build type, date and load.
nlohmann::ordered_json describe_machine();

/// Why results of this build must not be published; empty if they may.
std::string build_warning();

}  // namespace energon::bench
