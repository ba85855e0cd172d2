#include "bench/support/process_usage.h"

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"

namespace energon::bench {

// --- What a process uses ---

namespace {

std::string proc_path(int pid, const char* name) { return fmt::format("/proc/{}/{}", pid, name); }

[[noreturn]] void cannot_read(const std::string& path) {
  throw Error(ErrorCode::kNotFound, "what a process uses cannot be read: has it ended?",
              {.path = path});
}

// The line "name: n kB", in bytes.
std::int64_t bytes_of(const std::string& path, std::string_view name) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    std::int64_t kibibytes = 0;
    if (word == name && file >> kibibytes) {
      return kibibytes * 1024;
    }
    file.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  cannot_read(path);
}

}  // namespace

ProcessMemory memory_of(int pid) {
  return {.own_bytes = bytes_of(proc_path(pid, "smaps_rollup"), "Pss_Anon:"),
          .shared_bytes = bytes_of(proc_path(pid, "status"), "RssShmem:")};
}

std::int64_t open_files_of(int pid) {
  const std::string path = proc_path(pid, "fd");
  std::error_code error;
  std::int64_t count = 0;
  for (std::filesystem::directory_iterator file(path, error), end; !error && file != end;
       file.increment(error)) {
    ++count;
  }
  if (error) {
    cannot_read(path);
  }
  return count;
}

std::int64_t cpu_ticks_of(int pid) {
  const std::string path = proc_path(pid, "stat");
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  // The name in parentheses may contain anything; utime and stime are the 12th and 13th after it.
  std::istringstream fields(line.substr(line.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 11; ++i) {
    fields >> skipped;
  }
  std::int64_t user = 0;
  std::int64_t system = 0;
  if (!(fields >> user >> system)) {
    cannot_read(path);
  }
  return user + system;
}

// --- MemoryLog ---

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
