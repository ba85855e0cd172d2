#include "io/concurrency.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <system_error>
#include <thread>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

int usable_cpus() {
  cpu_set_t cpus;
  if (::sched_getaffinity(0, sizeof(cpus), &cpus) == 0) {
    return std::max(CPU_COUNT(&cpus), 1);
  }
  return std::max(static_cast<int>(std::thread::hardware_concurrency()), 1);  // above 1,024 CPUs
}

// --- One job per shard, on a few threads ---

int thread_count(std::optional<int> requested, std::int64_t jobs) {
  constexpr int kMaxDefault = 16;
  if (requested && *requested < 1) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("expected at least 1 thread, found {}", *requested));
  }
  const std::int64_t threads = requested.value_or(std::min(usable_cpus(), kMaxDefault));
  return static_cast<int>(std::clamp<std::int64_t>(jobs, 1, threads));
}

std::vector<std::exception_ptr> parallel_for(std::int64_t jobs, int threads,
                                             const std::function<void(std::int64_t)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(jobs));
  std::atomic<std::int64_t> next{0};
  const auto work = [&] {
    // Relaxed: the number itself is all that is shared; results are published by join().
    for (std::int64_t i = 0; (i = next.fetch_add(1, std::memory_order_relaxed)) < jobs;) {
      try {
        body(i);
      } catch (...) {
        errors[static_cast<std::size_t>(i)] = std::current_exception();
      }
    }
  };
  std::vector<std::jthread> pool;
  try {
    for (int i = 1; i < threads; ++i) {
      pool.emplace_back(work);
    }
  } catch (const std::system_error&) {
    // The system is out of threads: the ones already running do the work.
  }
  work();
  pool.clear();
  return errors;
}

void rethrow_first(const std::vector<std::exception_ptr>& errors) {
  const auto first = std::find_if(errors.begin(), errors.end(),
                                  [](const std::exception_ptr& error) { return error != nullptr; });
  if (first == errors.end()) {
    return;
  }
  const auto more = std::count_if(first + 1, errors.end(),
                                  [](const std::exception_ptr& error) { return error != nullptr; });
  try {
    std::rethrow_exception(*first);
  } catch (const Error& error) {
    if (more == 0) {
      throw;
    }
    throw Error(error.code(),
                fmt::format("{} (and {} more shards have errors)", error.message(), more),
                error.context());
  }
}

// --- Objects that belong to one process ---

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
              fmt::format("{} is used after fork, but belongs to the process that created it; "
                          "create a new loader in the forked process",
                          what));
}

}  // namespace energon
