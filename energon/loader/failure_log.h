// Records the failures that a loader's error policies tolerate.
//
// Counts all failures by stage and shard, and keeps the newest reports. If there is a quarantine
// file, a sample goes into it when it is the only one in its report.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "energon/loader/quarantine_writer.h"
#include "energon/stage/failure.h"
#include "energon/worker/statistics.h"
#include "io/mutex.h"

namespace energon {

/// Thread-safe.
class FailureLog {
 public:
  /// `quarantine_file`: empty for none. Throws Error if the file is not writable
  /// (QuarantineWriter::check()).
  explicit FailureLog(const std::string& quarantine_file) : quarantine_(quarantine_file) {
    quarantine_.check();
  }

  /// Throws Error (kIo) if the quarantine file cannot be written; the failure is still counted.
  void add(const FailureReport& report);

  /// Failures added so far.
  std::uint64_t size() const {
    const MutexLock lock(mutex_);
    return size_;
  }

  /// Puts counts and the newest reports into `statistics`.
  void fill(LoaderStatistics& statistics) const;

 private:
  void count(const FailureReport& report, const FailedSample& sample) ENERGON_REQUIRES(mutex_);

  using Place = std::tuple<std::string, std::string, std::string>;  // stage, dataset, shard

  mutable Mutex mutex_;
  std::map<Place, FailureCount> counts_ ENERGON_GUARDED_BY(mutex_);
  std::deque<FailureReport> newest_ ENERGON_GUARDED_BY(mutex_);
  std::uint64_t size_ ENERGON_GUARDED_BY(mutex_) = 0;
  QuarantineWriter quarantine_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace energon
