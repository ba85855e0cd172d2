#include "energon/loader/failure_log.h"

#include <algorithm>

namespace energon {
namespace {

constexpr std::size_t kNewestReports = 1000;
constexpr std::size_t kKeptSamples = 100;
constexpr std::size_t kKeptCauseBytes = 4096;
constexpr std::size_t kKeptDetails = 32;  // of the newest reports

}  // namespace

void FailureLog::count(const FailureReport& report, const FailedSample& sample) {
  FailureCount& count = counts_[Place(report.stage, sample.dataset_path, sample.shard_name)];
  count.stage = report.stage;
  count.dataset_path = sample.dataset_path;
  count.shard_name = sample.shard_name;
  count.is_shard_broken |= report.is_shard_broken;
  ++count.samples;
}

void FailureLog::add(const FailureReport& report) {
  const MutexLock lock(mutex_);
  ++size_;
  for (const FailedSample& sample : report.samples) {
    count(report, sample);
  }
  FailureReport& kept = newest_.emplace_back(report);
  kept.samples.resize(std::min(kept.samples.size(), kKeptSamples));
  kept.cause.resize(std::min(kept.cause.size(), kKeptCauseBytes));
  if (newest_.size() > kNewestReports) {
    newest_.pop_front();
  }
  if (newest_.size() > kKeptDetails) {
    newest_[newest_.size() - kKeptDetails - 1].detail = {};
  }
  quarantine_.append(report);
}

void FailureLog::fill(LoaderStatistics& statistics) const {
  const MutexLock lock(mutex_);
  for (const auto& [place, count] : counts_) {
    statistics.failures.push_back(count);
  }
  statistics.newest_reports.assign(newest_.begin(), newest_.end());
}

}  // namespace energon
