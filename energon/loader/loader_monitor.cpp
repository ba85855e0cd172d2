#include "energon/loader/loader_monitor.h"

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

void LoaderMonitor::report(const FailureReport& report) {
  reports_.push_back(report);
  if (reports_.size() >= kManyReports && on_many_reports_) {
    on_many_reports_();
  }
}

}  // namespace energon
