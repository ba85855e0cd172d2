#include "energon/loader/thread_times.h"

#include <chrono>
#include <memory>
#include <thread>

#include <catch2/catch.hpp>

#include "energon/loader/statistics_block.h"

namespace {

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
  for (int i = 0; i < 20'000; ++i) {
    const BusyTime busy(*block, cpu);
    for (int k = 0; k < 200; ++k) {
      sum = sum + static_cast<std::uint64_t>(k);
    }
  }
  CHECK(block->cpu_ns > 0);
  // Asked about once a millisecond, and each call runs all the time unless it is preempted.
  CHECK(block->cpu_ns > block->busy_ns / 10);
}

}  // namespace
