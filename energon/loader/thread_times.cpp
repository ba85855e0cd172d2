#include "energon/loader/thread_times.h"

#include <time.h>

#include <cstdint>

namespace energon {
namespace {

using Clock = std::chrono::steady_clock;

void add(std::atomic<std::uint64_t>& counter, std::chrono::nanoseconds time) {
  // The only writer: a load and a store are cheaper than a locked add.
  counter.store(counter.load(std::memory_order_relaxed) + static_cast<std::uint64_t>(time.count()),
                std::memory_order_relaxed);
}

// One system call.
std::chrono::nanoseconds thread_cpu_time() {
  timespec time{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

}  // namespace

BusyTime::BusyTime(StatisticsBlock& block, const ArenaWriter& arena)
    : block_(block),
      arena_(&arena),
      waited_(arena.waited()),
      ring_wait_ns_(block.consumer_wait_ns.load(std::memory_order_relaxed)),
      cpu_begin_(thread_cpu_time()),
      begin_(Clock::now()) {}

BusyTime::BusyTime(StatisticsBlock& block)
    : block_(block),
      arena_(nullptr),
      waited_(0),
      ring_wait_ns_(block.consumer_wait_ns.load(std::memory_order_relaxed)),
      cpu_begin_(thread_cpu_time()),
      begin_(Clock::now()) {}

BusyTime::~BusyTime() {
  const std::chrono::nanoseconds arena_wait =
      arena_ != nullptr ? arena_->waited() - waited_ : std::chrono::nanoseconds(0);
  const std::chrono::nanoseconds ring_wait(static_cast<std::int64_t>(
      block_.consumer_wait_ns.load(std::memory_order_relaxed) - ring_wait_ns_));
  add(block_.busy_ns, Clock::now() - begin_ - arena_wait - ring_wait);
  add(block_.cpu_ns, thread_cpu_time() - cpu_begin_);
  add(block_.consumer_wait_ns, arena_wait);
}

ConsumerWait::ConsumerWait(StatisticsBlock& block) : block_(block), begin_(Clock::now()) {}

ConsumerWait::~ConsumerWait() { add(block_.consumer_wait_ns, Clock::now() - begin_); }

void count_batch(StatisticsBlock& block) {
  block.batches.store(block.batches.load(std::memory_order_relaxed) + 1,
                      std::memory_order_relaxed);  // as in add()
}

}  // namespace energon
