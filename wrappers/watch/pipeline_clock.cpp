#include "wrappers/watch/pipeline_clock.h"

#include <cstdint>

#include "io/concurrency.h"

namespace energon {
const PipelineClock::Stage& PipelineClock::add_stage(std::string_view name,
                                                     StageCounters& counters) {
  stages_.push_back(Stage(name, counters));
  return stages_.back();
}

std::string_view PipelineClock::running_stage() const {
  const Stage* const stage = running_.load(std::memory_order_acquire);  // sees its name
  return stage != nullptr ? std::string_view(stage->name()) : std::string_view();
}

void PipelineClock::charge(Clock::time_point now) {
  if (!calls_.empty()) {
    const std::chrono::nanoseconds time = now - charged_until_;
    calls_.back().own += time;
    add_relaxed(calls_.back().stage->counters().busy_ns, time);
  }
  charged_until_ = now;
}

void PipelineClock::enter(const Stage& stage) {
  const Clock::time_point now = Clock::now();
  charge(now);
  calls_.push_back({.stage = &stage, .entered_at = now});
  running_.store(&stage, std::memory_order_release);  // with its name
}

void PipelineClock::leave() {
  const Clock::time_point now = Clock::now();
  charge(now);
  const Call& call = calls_.back();
  add_relaxed(call.stage->counters().input_wait_ns, now - call.entered_at - call.own);
  calls_.pop_back();
  running_.store(calls_.empty() ? nullptr : calls_.back().stage,
                 std::memory_order_release);  // as above
}

}  // namespace energon
