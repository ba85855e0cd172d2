// Divides the time of one pipeline among its stages: at each moment the innermost running stage is
// charged.
//
// A stage enters when it is called and leaves when it returns; entering stops the clock of the
// stage that called it. So nested stages get exclusive times, at the cost of one clock reading at
// each end of a call.

#pragma once

#include <atomic>
#include <chrono>
#include <list>
#include <string>
#include <string_view>
#include <vector>

#include "energon/stage/dataset.h"

namespace energon {

/// One per pipeline, shared by its stages. For the thread that drives the pipeline, except
/// running_stage().
class PipelineClock {
 public:
  /// A stage to which time is charged.
  class Stage {
   public:
    const std::string& name() const { return name_; }
    StageCounters& counters() const { return counters_; }

   private:
    friend class PipelineClock;
    Stage(std::string_view name, StageCounters& counters) : name_(name), counters_(counters) {}

    const std::string name_;
    StageCounters& counters_;
  };

  /// `stage` runs from construction to destruction, except while an inner section is open.
  class Section {
   public:
    Section(PipelineClock& clock, const Stage& stage) : clock_(clock) { clock_.enter(stage); }
    ~Section() { clock_.leave(); }
    Section(const Section&) = delete;
    Section& operator=(const Section&) = delete;

   private:
    PipelineClock& clock_;
  };

  PipelineClock() = default;
  PipelineClock(const PipelineClock&) = delete;
  PipelineClock& operator=(const PipelineClock&) = delete;

  /// Adds a stage that charges `counters`, which must outlive the clock. The result is valid as
  /// long as the clock.
  const Stage& add_stage(std::string_view name, StageCounters& counters);

  /// Name of the stage that is running; empty if none is. May be called from any thread; the result
  /// is valid as long as the clock.
  std::string_view running_stage() const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call {
    const Stage* stage;
    Clock::time_point entered_at;
    std::chrono::nanoseconds own{0};  // charged to the stage itself in this call
  };

  void enter(const Stage& stage);
  void leave();
  void charge(Clock::time_point now);

  std::list<Stage> stages_;
  std::vector<Call> calls_;  // running calls, outermost first
  Clock::time_point charged_until_;
  std::atomic<const Stage*> running_{nullptr};
};

}  // namespace energon
