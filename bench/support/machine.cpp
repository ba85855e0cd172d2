#include "bench/support/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <limits>
#include <sstream>

#include <fmt/chrono.h>
#include <fmt/format.h>

namespace energon::bench {
namespace {

constexpr std::string_view kBuildType = ENERGON_BENCH_BUILD_TYPE;
constexpr std::string_view kSanitize = ENERGON_BENCH_SANITIZE;

#ifdef NDEBUG
constexpr bool kAssertions = false;
#else
constexpr bool kAssertions = true;
#endif

std::string cpu_model() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      return colon == std::string::npos ? line : line.substr(colon + 2);
    }
  }
  return "unknown";
}

std::string compiler() {
#ifdef __clang__
  return fmt::format("clang {}", __clang_version__);
#else
  return fmt::format("g++ {}", __VERSION__);
#endif
}

// "6.1" for "6.1.0-18-amd64": the rest is a distribution's build.
std::string version_of(const std::string& release) {
  return release.substr(0, release.find('.', release.find('.') + 1));
}

std::string load_average() {
  std::ifstream file("/proc/loadavg");
  std::string minute;
  file >> minute;
  return minute;
}

}  // namespace

nlohmann::ordered_json describe_machine() {
  utsname system{};
  ::uname(&system);
  const std::int64_t memory = static_cast<std::int64_t>(::sysconf(_SC_PHYS_PAGES)) *
                              static_cast<std::int64_t>(::sysconf(_SC_PAGESIZE));
  return {{"date", fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)))},
          {"cpu", cpu_model()},
          {"cores", ::sysconf(_SC_NPROCESSORS_ONLN)},
          {"memory_gib", memory >> 30},
          {"kernel", fmt::format("{} {}", system.sysname, version_of(system.release))},
          {"compiler", compiler()},
          {"build_type", kBuildType},
          {"assertions", kAssertions},
          {"load_1min_at_start", load_average()}};
}

std::string build_warning() {
  if (!kSanitize.empty()) {
    return fmt::format("built with sanitizers ({}); the numbers are meaningless", kSanitize);
  }
  if (kAssertions) {
    return fmt::format("built as {} with assertions on; use the preset release", kBuildType);
  }
  return {};
}

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

std::optional<std::uint64_t> memory_of(int pid, std::string_view file, std::string_view field) {
  std::ifstream lines(fmt::format("/proc/{}/{}", pid, file));
  for (std::string word; lines >> word;) {
    std::uint64_t kibibytes = 0;
    if (word == field && lines >> kibibytes) {
      return kibibytes * 1024;
    }
    lines.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return std::nullopt;
}

}  // namespace energon::bench
