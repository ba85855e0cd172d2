#include "io/owner_process.h"

#include <pthread.h>

#include <atomic>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

// Counts forks on the way from the first process to this one.
std::atomic<std::uint64_t> generation{0};

void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }  // child: one thread

std::uint64_t current_generation() {
  static const int registered = ::pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  return generation.load(std::memory_order_relaxed);  // changes only in a new process
}

}  // namespace

OwnerProcess::OwnerProcess() : generation_(current_generation()) {}

bool OwnerProcess::is_current() const noexcept {
  return generation.load(std::memory_order_relaxed) == generation_;  // as above
}

void OwnerProcess::refuse(const char* what) {
  throw Error(ErrorCode::kCancelled,
              fmt::format("{} is used after fork: it belongs to the process that made it; make a "
                          "new loader in the forked process",
                          what));
}

}  // namespace energon
