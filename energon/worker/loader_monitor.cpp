#include "energon/worker/loader_monitor.h"

#include <cstdint>

namespace energon {

// Reports that wait for the next message; each has at least one sample, mostly only one.
static constexpr std::size_t kManyReports = 256;

StageCounters& LoaderMonitor::stage(std::string_view name) {
  auto found = stages_.find(name);
  if (found == stages_.end()) {
    found = stages_.emplace(name, &add_stage(block_, name)).first;
  }
  return *found->second;
}

void LoaderMonitor::begin_work(const StageCounters& stage, std::span<const Sample> samples) {
  if (check_ != nullptr) {
    check_->look();
  }
  // Counters of this monitor lie in the block, at one distance from each other.
  const auto distance = reinterpret_cast<std::uintptr_t>(&stage) -
                        reinterpret_cast<std::uintptr_t>(&block_.stages.front().counters);
  work_.begin(distance / sizeof(StageBlock), samples);
}

void LoaderMonitor::report(const FailureReport& report) {
  reports_.push_back(report);
  if (reports_.size() >= kManyReports && on_many_reports_) {
    on_many_reports_();
  }
}

}  // namespace energon
