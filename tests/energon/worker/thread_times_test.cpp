#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <ctime>
#include <memory>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/stage/thread_cpu_time.h"
#include "energon/worker/statistics_block.h"
#include "tests/support/skip.h"

namespace {

std::int64_t thread_cpu_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

using energon::BusyTime;
using energon::CpuShare;
using energon::StatisticsBlock;

TEST_CASE("A thread that sleeps is busy without using the CPU", "[loader][statistics]") {
  const auto block = std::make_unique<StatisticsBlock>();
  CpuShare cpu;
  for (int i = 0; i < 5; ++i) {
    const BusyTime busy(*block, cpu);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // the measured call
  }
  CHECK(block->busy_ns >= 25'000'000);
  CHECK(block->cpu_ns < block->busy_ns / 2);
}

TEST_CASE("CPU time of short calls is about that of the thread", "[loader][statistics]") {
  const auto block = std::make_unique<StatisticsBlock>();
  CpuShare cpu;
  volatile std::uint64_t sum = 0;
  const std::int64_t before = thread_cpu_ns();
  for (int i = 0; i < 20'000; ++i) {
    const BusyTime busy(*block, cpu);
    for (int k = 0; k < 200; ++k) {
      sum = sum + static_cast<std::uint64_t>(k);
    }
  }
  // The clock is read about once per millisecond, and most of the thread's work was in the calls.
  CHECK(block->cpu_ns > static_cast<std::uint64_t>(thread_cpu_ns() - before) / 4);
}

// Both threads may run only on the first core that the process may use.
void share_one_core(std::thread& other) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  REQUIRE(::sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
  int core = 0;
  while (!CPU_ISSET(core, &allowed)) {
    ++core;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(core, &one);
  REQUIRE(::pthread_setaffinity_np(::pthread_self(), sizeof(one), &one) == 0);
  REQUIRE(::pthread_setaffinity_np(other.native_handle(), sizeof(one), &one) == 0);
}

TEST_CASE("A thread that shares its core with another waits for it", "[loader][statistics]") {
  if (!energon::thread_cpu_wait()) {
    return energon::testing::skip_case(
        "this kernel does not report how long a thread waits for a core");
  }
  const auto block = std::make_unique<StatisticsBlock>();
  std::atomic<bool> is_over{false};
  std::thread measured([&] {
    std::thread other([&] {
      while (!is_over) {
      }
    });
    share_one_core(other);
    CpuShare cpu;
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(300);
    while (std::chrono::steady_clock::now() < end) {
      const BusyTime busy(*block, cpu);
      const std::int64_t used = thread_cpu_ns();
      while (thread_cpu_ns() - used < 5'000'000) {  // the measured call
      }
    }
    is_over = true;
    other.join();
  });
  measured.join();
  CHECK(block->cpu_wait_ns > block->busy_ns / 5);
  CHECK(block->cpu_wait_ns + block->cpu_ns <= block->busy_ns + block->busy_ns / 10);
}

}  // namespace
