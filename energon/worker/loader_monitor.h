// The monitor of a pipeline that a loader runs: keeps counters in a statistics block, and reports
// until they are sent.

#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/process/wait_check.h"
#include "energon/stage/dataset.h"
#include "energon/worker/statistics_block.h"

namespace energon {

/// Used only by the thread that drives the pipeline.
class LoaderMonitor final : public PipelineMonitor {
 public:
  /// `block` must outlive the monitor. Counters of a block that was used before continue from their
  /// values.
  explicit LoaderMonitor(StatisticsBlock& block) : block_(block), work_(block.work) {}

  /// Sets a function that report() calls when too many reports are pending to wait for the end of
  /// the batch. The function should call take_reports(). An exception that it throws ends the
  /// pipeline.
  void set_on_many_reports(std::function<void()> on_many_reports) {
    on_many_reports_ = std::move(on_many_reports);
  }

  /// Sets a function that note_replayed() calls.
  void set_on_replayed(std::function<void()> on_replayed) { on_replayed_ = std::move(on_replayed); }

  /// Sets the check that begin_work() looks at before each call of a function. It must outlive the
  /// monitor.
  void set_check(WaitCheck& check) { check_ = &check; }

  StageCounters& stage(std::string_view name) override;
  void report(const FailureReport& report) override;
  void begin_work(const StageCounters& stage, std::span<const Sample> samples) override;
  void end_work() override { work_.end(); }
  void note_replayed() override {
    if (on_replayed_) {
      on_replayed_();
    }
  }
  bool is_interrupted() const override { return check_ != nullptr && check_->has_ended_wait(); }

  StatisticsBlock& block() { return block_; }
  /// Returns the reports since the last call, in order.
  std::vector<FailureReport> take_reports() { return std::exchange(reports_, {}); }

 private:
  StatisticsBlock& block_;
  WorkNoteWriter work_;
  std::map<std::string, StageCounters*, std::less<>> stages_;  // by full name
  std::function<void()> on_many_reports_;
  std::function<void()> on_replayed_;
  WaitCheck* check_ = nullptr;
  std::vector<FailureReport> reports_;
};

}  // namespace energon
