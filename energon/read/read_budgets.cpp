#include "energon/read/read_budgets.h"

#include <sys/resource.h>

#include <algorithm>

namespace energon {
namespace {

constexpr std::uint64_t kMostTars = 65'536;
constexpr std::uint64_t kMostLeft = 1024;  // to the rest of the program

std::uint64_t left_of(std::uint64_t limit) { return std::min(limit / 4, kMostLeft); }

std::uint64_t tars_of(std::uint64_t limit) {
  return std::clamp<std::uint64_t>(limit - left_of(limit), 1, kMostTars);
}

rlimit open_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  return limit;
}

std::uint64_t raise_limit() {
  rlimit limit = open_file_limit();
  const rlim_t wanted = std::min<rlim_t>(limit.rlim_max, kMostTars + kMostLeft);
  if (limit.rlim_cur < wanted) {
    limit.rlim_cur = wanted;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  return tars_of(open_file_limit().rlim_cur);
}

}  // namespace

ReadBudgets::ReadBudgets()
    : tars(std::make_shared<SharedBudget>(tars_of(open_file_limit().rlim_cur), raise_limit)),
      indexes(std::make_shared<SharedBudget>(kIndexBytes)),
      ahead(std::make_shared<AheadMemory>(kAheadBytes)) {}

}  // namespace energon
