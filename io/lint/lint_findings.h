// What the threads of lint() find. Private to io.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "io/concurrency.h"
#include "io/lint/lint.h"

namespace energon {

/// Safe to use from several threads.
class LintFindings {
 public:
  void add(LintProblem problem) {
    const MutexLock lock(mutex_);
    problems_.push_back(std::move(problem));
  }

  void add_checksummed(std::int64_t samples) {
    const MutexLock lock(mutex_);
    samples_checksummed_ += samples;
  }

  /// Moves the problems into `report` and sets the number of samples that were checksummed.
  void move_to(LintReport& report) {
    const MutexLock lock(mutex_);
    std::ranges::move(problems_, std::back_inserter(report.problems));
    report.samples_checksummed = samples_checksummed_;
  }

 private:
  Mutex mutex_;
  std::vector<LintProblem> problems_ ENERGON_GUARDED_BY(mutex_);
  std::int64_t samples_checksummed_ ENERGON_GUARDED_BY(mutex_) = 0;
};

}  // namespace energon
