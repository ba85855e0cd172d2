// Observes the stages of a pipeline: the time each takes, and the amount of its output.

#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/stage/dataset.h"
#include "energon/stage/stage_guard.h"

namespace energon {

/// Divides the time of one pipeline among its stages: at each moment the innermost running stage is
/// charged.
///
/// A stage enters when it is called and leaves when it returns; entering stops the clock of the
/// stage that called it. So nested stages get exclusive times, at the cost of one clock reading at
/// each end of a call.
///
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

  /// Name of the stage that is running, or "" if none is. May be called from any thread; the result
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

/// Times one function of a stage that runs several, such as packing. For the thread that drives the
/// pipeline.
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

/// A stage that changes nothing: the base of stages that only observe.
///
/// Items, states, configs and keys are those of the inner stage, so pipelines with and without such
/// a stage can restore each other's states.
class PassThrough : public Dataset {
 public:
  std::optional<Sample> next() override { return inner_->next(); }
  void next_many(std::int64_t count, std::vector<Sample>& samples) override {
    inner_->next_many(count, samples);
  }
  void next_epoch() override { inner_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  std::int64_t skip(std::int64_t count) override { return inner_->skip(count); }
  bool skip_makes_items() const override { return inner_->skip_makes_items(); }
  std::int64_t skip_batches(std::int64_t count, std::int64_t batch_size) override {
    return inner_->skip_batches(count, batch_size);
  }
  Sample restore_sample(const RestoreKey& key) override { return inner_->restore_sample(key); }
  void check_key(const RestoreKey& key) const override { inner_->check_key(key); }
  State save_state() const override { return inner_->save_state(); }
  Config config() const override;

 protected:
  explicit PassThrough(std::unique_ptr<Dataset> inner) : inner_(std::move(inner)) {}

  Dataset& inner() { return *inner_; }

  void check_state(const State& state, std::vector<std::string>& differences) const override {
    check(*inner_, state, differences);
  }
  void apply_state(const State& state) override { apply(*inner_, state); }

 private:
  const std::unique_ptr<Dataset> inner_;
};

/// Whether to count payload bytes, which visits every field. For the reading stage.
enum class CountBytes : std::uint8_t { kNo, kYes };

/// Times the inner stage and counts its output. Costs two clock readings per call; next_many() is
/// one call.
class TimedStage final : public PassThrough {
 public:
  /// Takes ownership of `inner` and charges its own time to the counters of `name`. `clock` is the
  /// clock of the pipeline; `monitor` must outlive the stage and the clock.
  TimedStage(std::unique_ptr<Dataset> inner, std::string_view name,
             std::shared_ptr<PipelineClock> clock, PipelineMonitor& monitor,
             CountBytes count_bytes = CountBytes::kNo);

  std::optional<Sample> next() override;
  void next_many(std::int64_t count, std::vector<Sample>& samples) override;

  /// Runs `give()` and returns its result, a sample or nullopt; for samples that the inner stage
  /// returns from a function other than next().
  template <class Give>
  std::optional<Sample> measure(Give&& give) {
    const PipelineClock::Section section(*clock_, stage_);
    std::optional<Sample> sample = std::forward<Give>(give)();
    if (sample) {
      count(*sample);
    }
    return sample;
  }

 private:
  void count(const Sample& sample);

  const std::shared_ptr<PipelineClock> clock_;
  const PipelineClock::Stage& stage_;
  const CountBytes count_bytes_;
};

}  // namespace energon
