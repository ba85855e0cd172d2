#include "bench/support/machine.h"

#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>

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

// "6.1" of "6.1.0-18-amd64": what follows is the build of a distribution.
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
    return fmt::format("built with sanitizers ({}); the numbers say nothing", kSanitize);
  }
  if (kAssertions) {
    return fmt::format("built as {} with assertions on; use the preset release", kBuildType);
  }
  return {};
}

}  // namespace energon::bench
