// Wraps each call of a function that may fail because of the data, and applies the stage's policy.

#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "energon/sample/sample_ref.h"
#include "energon/stage/call_context.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"

namespace energon {

/// Options of every stage that runs user functions.
struct StageOptions {
  std::string name = {};   ///< shown in reports, statistics and config()
  std::uint32_t seed = 0;  ///< of the job, for CallContext::rng()
  /// For CallContext::memory(); null means the heap.
  std::shared_ptr<BufferAllocator> memory = nullptr;
  ErrorPolicy policy = {};
  /// Number of samples in a row without output that is an Error; 0 means no limit. Without a limit,
  /// a stage that cannot use any sample would loop forever in an endless epoch.
  std::int64_t most_left_out = 0;
  /// Whether a sample is excluded in place (LeafDataset::excluded_in_place()). Null means none is.
  std::function<bool(const SampleRef&)> is_excluded = nullptr;
  /// Must outlive the stage.
  std::reference_wrapper<PipelineMonitor> monitor = no_monitor();

  CallResources resources() const { return {.seed = seed, .memory = memory}; }
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

  /// Ends the work that note_work() announced.
  class Work {
   public:
    explicit Work(PipelineMonitor& monitor) : monitor_(monitor) {}
    ~Work() { monitor_.end_work(); }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

   private:
    PipelineMonitor& monitor_;
  };

  /// Marks `samples` as being worked on while the returned object lives. If the worker dies or
  /// hangs in that time, the error names the stage and the first of the samples.
  [[nodiscard]] Work work_on(std::span<const Sample> samples) {
    note_work(samples);
    return Work(monitor_.get());
  }
  /// Replaces the samples being worked on. Requires: the result of work_on() is alive.
  void note_work(std::span<const Sample> samples) { monitor_.get().begin_work(counters_, samples); }

  /// Returns the result of `function()`, or nullopt if it failed or skipped and the samples are
  /// left out. `samples()` returns them as a vector of FailedSample and is called only if
  /// `function()` throws. Throws Error if the policy requires it, after too many failures in a row,
  /// and for errors not caused by a sample (cancellation, limits, bugs, memory).
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

  /// Applies the policy to the exception `thrown`. Returns normally if the samples are left out.
  void handle(const std::exception_ptr& thrown, std::vector<FailedSample> samples,
              bool is_shard_broken);

  /// Whether a sample may have caused `thrown`, so that handle() applies the policy instead of
  /// throwing an Error.
  bool may_be_of_sample(const std::exception_ptr& thrown) const;

  /// Whether the policy may skip `error`.
  bool may_pass(const Error& error) const;

  /// Resets the counts of consecutive failures and of consecutive samples that yielded nothing.
  void succeed() {
    consecutive_ = 0;
    left_out_ = 0;
  }

  /// Resets only the count of consecutive failures: a sample was used but yielded nothing. Throws
  /// Error if most_left_out is reached.
  void succeed_with_nothing() {
    consecutive_ = 0;
    leave_out(1);
  }

  /// Counts samples that are left out without a new report because their shard is known to be
  /// broken.
  void count_failed(std::uint64_t samples);

  /// Counts samples that the stage leaves out without a failure, such as samples that were not
  /// selected.
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
  std::int64_t left_out_ = 0;     // samples since one last yielded something
};

}  // namespace energon
