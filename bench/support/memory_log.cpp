#include "bench/support/memory_log.h"

#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "bench/support/process_usage.h"

namespace energon::bench {

void MemoryLog::look() {
  const ProcessMemory memory = memory_of(pid_);
  own_bytes_.push_back(static_cast<double>(memory.own_bytes));
  shared_bytes_.push_back(static_cast<double>(memory.shared_bytes));
  files_.push_back(static_cast<double>(open_files_of(pid_)));
}

void MemoryLog::report(double growth, Report& report) const {
  const std::vector<std::pair<const char*, const std::vector<double>*>> kinds = {
      {"own memory", &own_bytes_}, {"shared memory", &shared_bytes_}};
  for (const auto& [kind, values] : kinds) {
    const std::vector<double> quarters = quarters_of(*values);
    const std::string name = fmt::format("{}: {}", name_, kind);
    report.add({.name = name,
                .unit = "B",
                .measurement = {name, *values},
                .more = {{"quarters", quarters}}});
    report.add({.name = fmt::format("{}, last quarter against second", name),
                .unit = "",
                .value = quarters[1] > 0 ? quarters[3] / quarters[1] : 1,
                .target = growth,
                .direction = Target::Direction::kAtMost});
  }
  const std::vector<double> quarters = quarters_of(files_);
  const std::string name = fmt::format("{}: descriptors", name_);
  report.add({.name = name,
              .unit = "files",
              .measurement = {name, files_},
              .more = {{"quarters", quarters}}});
  report.add({.name = fmt::format("{}, last quarter less second", name),
              .unit = "",
              .value = quarters[3] - quarters[1],
              .target = 0,
              .direction = Target::Direction::kAtMost});
}

std::vector<double> quarters_of(const std::vector<double>& values) {
  std::vector<double> medians;
  for (std::size_t quarter = 0; quarter < 4; ++quarter) {
    const auto at = [&](std::size_t part) {
      return values.begin() + static_cast<std::ptrdiff_t>(values.size() * part / 4);
    };
    medians.push_back(quantile({at(quarter), at(quarter + 1)}, 0.5));
  }
  return medians;
}

}  // namespace energon::bench
