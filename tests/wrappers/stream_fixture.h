// Shared by tests of stages: a stream of 55 numbered samples, and monitors of a pipeline.

#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/stage/dataset.h"
#include "energon/stage/failure.h"
#include "energon/stage/stage_guard.h"
#include "tests/support/dataset_builder.h"

namespace energon::testing {

/// Pipelines over one dataset of 55 samples; must outlive them.
class NumberedStream {
 public:
  /// One epoch after another, in the order of the numbers.
  std::unique_ptr<Dataset> in_order();
  /// One epoch after another, shuffled.
  std::unique_ptr<Dataset> shuffled();
  /// Two leaves with the 55 samples each, shuffled together.
  std::unique_ptr<Dataset> two_leaves();

 private:
  TempDir folder_;
  std::shared_ptr<const Webdataset> dataset_ = numbered_dataset(folder_, kTens, 40);
  HeapBufferPool memory_;
};

/// Number of a sample, from its first key.
std::int64_t number(const Sample& sample);

/// The numbers of the items of an epoch; for a batch, those of its samples.
std::vector<std::vector<std::int64_t>> epoch_numbers(Dataset& stream);

/// A policy that leaves out samples that fail.
inline const ErrorPolicy kSkipFailures = {.action = FailureAction::kSkip};

/// Records its calls.
class RecordingMonitor final : public PipelineMonitor {
 public:
  StageCounters& stage(std::string_view name) override { return counters_[std::string(name)]; }
  void report(const FailureReport& report) override { reports_.push_back(report); }
  const std::vector<FailureReport>& reports() const { return reports_; }

 private:
  std::map<std::string, StageCounters> counters_;
  std::vector<FailureReport> reports_;
};

/// Throws an Error (kIo) once, after `before` items (never if negative), and counts rebuilt items.
class FailingOnce final : public Dataset {
 public:
  FailingOnce(std::unique_ptr<Dataset> inner, int before)
      : inner_(std::move(inner)), left_(before) {}

  std::optional<Sample> next() override;
  void next_epoch() override { inner_->next_epoch(); }
  std::optional<std::int64_t> size() const override { return inner_->size(); }
  std::int64_t skip(std::int64_t count) override { return inner_->skip(count); }
  Sample restore_sample(const RestoreKey& key) override {
    ++restored_;
    return inner_->restore_sample(key);
  }
  State save_state() const override { return inner_->save_state(); }
  Config config() const override;

  int restored() const { return restored_; }

 private:
  void check_state(const State& state, std::vector<std::string>& differences) const override {
    check(*inner_, state, differences);
  }
  void apply_state(const State& state) override { apply(*inner_, state); }

  const std::unique_ptr<Dataset> inner_;
  int left_;
  int restored_ = 0;
};

}  // namespace energon::testing
