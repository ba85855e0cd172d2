#include "energon/worker/thread_times.h"

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "energon/stage/thread_cpu_time.h"
#include "io/relaxed.h"

namespace energon {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::microseconds kShortCall(500);
constexpr std::chrono::milliseconds kInterval(1);
constexpr std::chrono::milliseconds kWaitInterval(10);  // opens a file

double to_double(std::chrono::nanoseconds time) { return static_cast<double>(time.count()); }

}  // namespace

bool CpuShare::is_due(Clock::time_point now) const {
  return last_call_ >= kShortCall || now - asked_at_ >= kInterval;
}

bool CpuShare::is_wait_due(Clock::time_point now) const {
  return now - wait_asked_at_ >= kWaitInterval;
}

BusyTime::BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter* arena)
    : block_(block),
      cpu_(cpu),
      arena_(arena),
      waited_(arena != nullptr ? arena->waited() : std::chrono::nanoseconds(0)),
      ring_wait_ns_(block.consumer_wait_ns.load(std::memory_order_relaxed)),
      begin_(Clock::now()),
      cpu_begin_(cpu.is_due(begin_) ? std::optional(thread_cpu_time()) : std::nullopt),
      asks_wait_(cpu.is_wait_due(begin_)),
      wait_begin_(asks_wait_ ? thread_cpu_wait() : std::nullopt) {}

BusyTime::BusyTime(StatisticsBlock& block, CpuShare& cpu, const ArenaWriter& arena)
    : BusyTime(block, cpu, &arena) {}

BusyTime::BusyTime(StatisticsBlock& block, CpuShare& cpu) : BusyTime(block, cpu, nullptr) {}

BusyTime::~BusyTime() {
  const Clock::time_point end = Clock::now();
  const std::chrono::nanoseconds arena_wait =
      arena_ != nullptr ? arena_->waited() - waited_ : std::chrono::nanoseconds(0);
  const std::chrono::nanoseconds ring_wait(static_cast<std::int64_t>(
      block_.consumer_wait_ns.load(std::memory_order_relaxed) - ring_wait_ns_));
  const std::chrono::nanoseconds busy = end - begin_ - arena_wait - ring_wait;
  add_relaxed(block_.busy_ns, busy);
  add_relaxed(block_.consumer_wait_ns, arena_wait);
  cpu_.last_call_ = busy;
  add_cpu_wait(busy, end);
  if (!cpu_begin_) {
    add_relaxed(block_.cpu_ns,
                std::chrono::nanoseconds(std::llround(cpu_.share_ * to_double(busy))));
    return;
  }
  const std::chrono::nanoseconds used = thread_cpu_time() - *cpu_begin_;
  add_relaxed(block_.cpu_ns, used);
  cpu_.asked_at_ = end;
  if (busy > std::chrono::nanoseconds(0)) {
    cpu_.share_ = std::min(1.0, to_double(used) / to_double(busy));
  }
}

void BusyTime::add_cpu_wait(std::chrono::nanoseconds busy, Clock::time_point end) {
  if (asks_wait_) {
    cpu_.wait_asked_at_ = end;  // also where the system does not say it
  }
  std::optional<std::chrono::nanoseconds> waited;
  if (wait_begin_) {
    waited = thread_cpu_wait();
  }
  if (!waited) {
    add_relaxed(block_.cpu_wait_ns,
                std::chrono::nanoseconds(std::llround(cpu_.wait_share_ * to_double(busy))));
    return;
  }
  *waited = std::clamp(*waited - *wait_begin_, std::chrono::nanoseconds(0),
                       std::max(busy, std::chrono::nanoseconds(0)));
  add_relaxed(block_.cpu_wait_ns, *waited);
  cpu_.wait_share_ = busy.count() > 0 ? to_double(*waited) / to_double(busy) : 0;
}

ConsumerWait::ConsumerWait(StatisticsBlock& block) : block_(block), begin_(Clock::now()) {}

ConsumerWait::~ConsumerWait() { add_relaxed(block_.consumer_wait_ns, Clock::now() - begin_); }

void count_batch(StatisticsBlock& block) { add_relaxed(block.batches, 1); }

void count_helper(StatisticsBlock& block, std::chrono::nanoseconds cpu_time) {
  add_relaxed(block.helper_cpu_ns, cpu_time);
}

}  // namespace energon
