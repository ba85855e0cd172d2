// Times one function of a stage that runs several, such as packing.

#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "energon/stage/stage_guard.h"
#include "wrappers/watch/pipeline_clock.h"

namespace energon {

/// For the thread that drives the pipeline.
class FunctionTimer {
 public:
  /// Charges the time to the counters of `stage`. Without a clock, times nothing.
  FunctionTimer(std::shared_ptr<PipelineClock> clock, const StageOptions& stage)
      : clock_(std::move(clock)),
        stage_(clock_ ? &clock_->add_stage(stage.name, stage.monitor.get().stage(stage.name))
                      : nullptr) {}

  /// Runs `function()` and returns its result. The surrounding stage is not charged meanwhile.
  template <class Function>
  decltype(auto) operator()(Function&& function) const {
    if (stage_ == nullptr) {
      return std::forward<Function>(function)();
    }
    const PipelineClock::Section section(*clock_, *stage_);
    return std::forward<Function>(function)();
  }

  /// Adds to the number of samples that the function has made.
  void count(std::uint64_t samples) const {
    if (stage_ != nullptr) {
      stage_->counters().samples.fetch_add(samples, std::memory_order_relaxed);  // only a count
    }
  }

 private:
  const std::shared_ptr<PipelineClock> clock_;
  const PipelineClock::Stage* const stage_;
};

}  // namespace energon
