#include "energon/process/address_space.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <limits>

#include "energon/process/shared_memory.h"

namespace energon {
namespace {

// Half of what 48-bit addresses leave to a process; the rest is for everything else.
constexpr std::uint64_t kAddressable = std::uint64_t{1} << 46;

std::uint64_t mapped_bytes() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * page_bytes();
}

std::uint64_t limit_of(int resource) {
  rlimit limit{};
  if (::getrlimit(static_cast<__rlimit_resource>(resource), &limit) != 0 ||
      limit.rlim_cur == RLIM_INFINITY) {
    return std::numeric_limits<std::uint64_t>::max();
  }
  return limit.rlim_cur;
}

}  // namespace

AddressSpace AddressSpace::now() {
  const std::uint64_t limit = limit_of(RLIMIT_AS);
  const std::uint64_t file_limit = limit_of(RLIMIT_FSIZE);
  const std::uint64_t mapped = mapped_bytes();
  return {.left_bytes = std::min(limit > mapped ? limit - mapped : 0, kAddressable),
          .largest_file_bytes = std::min(file_limit, kAddressable)};
}

std::uint64_t physical_memory_bytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  return pages > 0 ? static_cast<std::uint64_t>(pages) * page_bytes()
                   : std::numeric_limits<std::uint64_t>::max();
}

}  // namespace energon
