#include "wrappers/watch/timed_stage.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <nlohmann/json.hpp>

#include "io/concurrency.h"

namespace energon {

// --- PipelineClock ---

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

// --- PassThrough and TimedStage ---

Config PassThrough::config() const { return inner_->config(); }

TimedStage::TimedStage(std::unique_ptr<Dataset> inner, std::string_view name,
                       std::shared_ptr<PipelineClock> clock, PipelineMonitor& monitor,
                       CountBytes count_bytes)
    : PassThrough(std::move(inner)),
      clock_(std::move(clock)),
      stage_(clock_->add_stage(name, monitor.stage(name))),
      count_bytes_(count_bytes) {}

std::optional<Sample> TimedStage::next() {
  const PipelineClock::Section section(*clock_, stage_);
  std::optional<Sample> sample = inner().next();
  if (sample) {
    count(*sample);
  }
  return sample;
}

void TimedStage::next_many(std::int64_t count, std::vector<Sample>& samples) {
  const std::size_t before = samples.size();
  const PipelineClock::Section section(*clock_, stage_);
  inner().next_many(count, samples);
  for (std::size_t i = before; i < samples.size(); ++i) {
    this->count(samples[i]);
  }
}

void TimedStage::count(const Sample& sample) {
  StageCounters& counters = stage_.counters();
  add_relaxed(counters.samples, std::max<std::size_t>(sample.keys.size(), 1));
  if (count_bytes_ == CountBytes::kYes) {
    add_relaxed(counters.bytes, payload_bytes(sample));
  }
}

}  // namespace energon
