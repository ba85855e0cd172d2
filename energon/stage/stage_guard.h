// Around each call of a function that may fail because of the data: applies the stage's policy.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "energon/stage/failure.h"
#include "energon/stage/pipeline_monitor.h"

namespace energon {

/// What every stage is told that runs functions of the user.
struct StageOptions {
  std::string name = {};   ///< in reports, statistics and config()
  std::uint32_t seed = 0;  ///< of the job, for CallContext::rng()
  ErrorPolicy policy = {};
  /// So many samples in a row that give nothing are an Error: in an epoch without end a stage that
  /// can use nothing would search for ever. 0: no bound.
  std::int64_t most_left_out = 0;
  /// Must outlive the stage.
  std::reference_wrapper<PipelineMonitor> monitor = no_monitor();
};

/// Not thread-safe; one per stage.
class StageGuard {
 public:
  explicit StageGuard(const StageOptions& options)
      : name_(options.name),
        policy_(options.policy),
        most_left_out_(options.most_left_out),
        monitor_(options.monitor),
        counters_(monitor_.get().stage(name_)) {}

  /// Ends what note_work() began.
  class Work {
   public:
    explicit Work(PipelineMonitor& monitor) : monitor_(monitor) {}
    ~Work() { monitor_.end_work(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    PipelineMonitor& monitor_;
  };

  /// While the result lives, a function of the stage works on `samples`: a worker that dies or
  /// hangs then is reported with the stage and the first of them.
  [[nodiscard]] Work work_on(std::span<const Sample> samples) {
    note_work(samples);
    return Work(monitor_.get());
  }
  /// It now works on `samples`. Requires: the result of work_on() lives.
  void note_work(std::span<const Sample> samples) { monitor_.get().begin_work(counters_, samples); }

  /// The result of `function()`; nothing if it failed or skipped and the samples are left out.
  /// `samples()` gives them as a vector of FailedSample, and is called only then. Throws Error if
  /// the policy says so, after too many failures in a row, and for what no sample is to blame for
  /// (cancelled, limits, bugs, memory).
  template <class Function, class Samples>
  auto run(Function&& function, Samples&& samples)
      -> std::optional<std::invoke_result_t<Function>> {
    try {
      auto result = std::forward<Function>(function)();
      succeed();
      return result;
    } catch (...) {
      handle(std::current_exception(), samples(), false);
      return std::nullopt;
    }
  }

  /// Applies the policy to what was thrown. Returns if the samples are left out.
  void handle(const std::exception_ptr& thrown, std::vector<FailedSample> samples,
              bool is_shard_broken);

  /// Whether the policy may let `error` pass.
  bool may_pass(const Error& error) const;

  /// Ends a row of failures, and of samples that gave nothing.
  void succeed() {
    consecutive_ = 0;
    left_out_ = 0;
  }

  /// Ends a row of failures only: a sample was used, and gave nothing. Throws Error as handle().
  void succeed_with_nothing() {
    consecutive_ = 0;
    leave_out(1);
  }

  /// Counts samples that are left out without a new report: those of a shard known to be broken.
  void count_failed(std::uint64_t samples);

  /// Counts samples that the stage leaves out without a failure, such as those nobody selected.
  void count_skipped(std::uint64_t samples);

  const std::string& name() const { return name_; }

 private:
  void leave_out(std::uint64_t samples);

  const std::string name_;
  const ErrorPolicy policy_;
  const std::int64_t most_left_out_;
  const std::reference_wrapper<PipelineMonitor> monitor_;
  StageCounters& counters_;

  std::int64_t consecutive_ = 0;  // failures since the last success
  std::int64_t left_out_ = 0;     // samples, since one gave something
};

}  // namespace energon
