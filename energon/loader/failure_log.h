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
#include <utility>

#include "energon/loader/quarantine_writer.h"
#include "energon/stage/failure.h"
#include "energon/worker/statistics.h"
#include "io/concurrency.h"

namespace energon {

/// Failures by stage and shard, and the newest reports. Its memory does not grow with the number of
/// failures. A value type.
class FailureCounts {
 public:
  void add(const FailureReport& report);
  /// Adds failures that came after these.
  void add(FailureCounts&& later);

  /// Reports added so far.
  std::uint64_t size() const { return size_; }

  /// Puts counts and the newest reports into `statistics`.
  void fill(LoaderStatistics& statistics) const;

 private:
  void keep(FailureReport report);

  using Place = std::tuple<std::string, std::string, std::string>;  // stage, dataset, shard

  std::map<Place, FailureCount> counts_;
  std::deque<FailureReport> newest_;
  std::uint64_t size_ = 0;
};

/// Thread-safe.
class FailureLog {
 public:
  /// `quarantine_file`: empty for none. Throws Error if the file is not writable
  /// (QuarantineWriter::check()).
  explicit FailureLog(const std::string& quarantine_file) : quarantine_(quarantine_file) {
    quarantine_.check();
  }

  /// Counts a failure and puts it into the quarantine file. Throws Error (kIo) if the file cannot
  /// be written; the failure is still counted.
  void add(const FailureReport& report) {
    const MutexLock lock(mutex_);
    counts_.add(report);
    quarantine_.append(report);
  }

  /// The two halves of add(), for failures that are counted later than they are known.
  void quarantine(const FailureReport& report) {
    const MutexLock lock(mutex_);
    quarantine_.append(report);
  }
  void count(FailureCounts&& failures) {
    const MutexLock lock(mutex_);
    counts_.add(std::move(failures));
  }

  /// Failures counted so far.
  std::uint64_t size() const {
    const MutexLock lock(mutex_);
    return counts_.size();
  }

  /// See FailureCounts::fill().
  void fill(LoaderStatistics& statistics) const {
    const MutexLock lock(mutex_);
    counts_.fill(statistics);
  }

 private:
  mutable Mutex mutex_;
  FailureCounts counts_ ENERGON_GUARDED_BY(mutex_);
  QuarantineWriter quarantine_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace energon
