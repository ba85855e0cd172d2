#include "cli/show/process_usage.h"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include <fmt/format.h>

namespace energon::cli {
namespace {

std::optional<double> cpu_seconds_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  if (!std::getline(file, line)) {
    return std::nullopt;
  }
  // The second field, the name in parentheses, may contain anything; utime and stime are the 12th
  // and 13th after it.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) {
    fields >> skipped;
  }
  double user = 0;
  double system = 0;
  fields >> user >> system;
  return (user + system) / static_cast<double>(::sysconf(_SC_CLK_TCK));
}

std::optional<std::uint64_t> pss_of(int pid) {
  std::ifstream file(fmt::format("/proc/{}/smaps_rollup", pid));
  for (std::string word; file >> word;) {
    if (word == "Pss:") {
      std::uint64_t kibibytes = 0;
      file >> kibibytes;
      return kibibytes * 1024;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace

std::optional<ProcessUsage> usage_of(int pid) {
  const auto cpu = cpu_seconds_of(pid);
  if (!cpu) {
    return std::nullopt;
  }
  return ProcessUsage{.cpu_seconds = *cpu, .pss_bytes = pss_of(pid)};
}

}  // namespace energon::cli
