// Describes the machine and the build of a measurement, and the resources that its processes use.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

namespace energon::bench {

/// CPU, cores, memory, kernel, compiler, build type, date and load.
nlohmann::ordered_json describe_machine();

/// The reason if results of this build must not be published, otherwise an empty string.
std::string build_warning();

/// User and system time of a process since it started; nullopt if the process does not exist.
std::optional<double> cpu_seconds_of(int pid);

/// The line `field` of /proc/`pid`/`file`, in bytes: for example "Pss:" of "smaps_rollup", where a
/// page shared by n processes counts 1/n in each. nullopt if the process or line does not exist.
std::optional<std::uint64_t> memory_of(int pid, std::string_view file, std::string_view field);

}  // namespace energon::bench
