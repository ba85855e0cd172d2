#include "energon/loader/thread_times.h"

#include <chrono>
#include <ctime>
#include <memory>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/loader/statistics_block.h"

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
    std::this_thread::sleep_for(std::chrono::milliseconds(5));  // what is measured
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
  // It is asked about once a millisecond, and most of what the thread did was in the calls.
  CHECK(block->cpu_ns > static_cast<std::uint64_t>(thread_cpu_ns() - before) / 4);
}

}  // namespace
