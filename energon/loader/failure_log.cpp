#include "energon/loader/failure_log.h"

#include <algorithm>
#include <utility>

namespace energon {
namespace {

constexpr std::size_t kNewestReports = 1000;
constexpr std::size_t kKeptSamples = 100;
constexpr std::size_t kKeptCauseBytes = 4096;
constexpr std::size_t kKeptDetails = 32;  // of the newest reports

}  // namespace

void FailureCounts::add(const FailureReport& report) {
  ++size_;
  for (const FailedSample& sample : report.samples) {
    FailureCount& count = counts_[Place(report.stage, sample.dataset_path, sample.shard_name)];
    count.stage = report.stage;
    count.dataset_path = sample.dataset_path;
    count.shard_name = sample.shard_name;
    count.is_shard_broken |= report.is_shard_broken;
    ++count.samples;
  }
  keep(report);
}

void FailureCounts::add(FailureCounts&& later) {
  size_ += later.size_;
  for (auto& [place, count] : later.counts_) {
    const auto [found, is_new] = counts_.try_emplace(place, count);
    if (!is_new) {
      found->second.samples += count.samples;
      found->second.is_shard_broken |= count.is_shard_broken;
    }
  }
  for (FailureReport& report : later.newest_) {
    keep(std::move(report));
  }
  later = {};
}

void FailureCounts::keep(FailureReport report) {
  FailureReport& kept = newest_.emplace_back(std::move(report));
  kept.samples.resize(std::min(kept.samples.size(), kKeptSamples));
  kept.cause.resize(std::min(kept.cause.size(), kKeptCauseBytes));
  if (newest_.size() > kNewestReports) {
    newest_.pop_front();
  }
  if (newest_.size() > kKeptDetails) {
    newest_[newest_.size() - kKeptDetails - 1].detail = {};
  }
}

void FailureCounts::fill(LoaderStatistics& statistics) const {
  for (const auto& [place, count] : counts_) {
    statistics.failures.push_back(count);
  }
  statistics.newest_reports.assign(newest_.begin(), newest_.end());
}

}  // namespace energon
