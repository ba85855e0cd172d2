// Records the failures that a loader's error policies tolerate, and writes the quarantine file.
//
// Counts all failures by stage and shard, and keeps the newest reports. If there is a quarantine
// file, a sample goes into it when it is the only one in its report.

#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "energon/stage/failure.h"
#include "energon/worker/statistics.h"
#include "io/concurrency.h"
#include "io/file.h"

namespace energon {

// Writes the quarantine file, the list of samples that a run left out. The next run can then leave
// them out from the start. docs/formats/quarantine.md gives the format; io/dataset/quarantine.h
// reads it.

/// Not thread-safe. Several writers may append to one file, even from different processes.
class QuarantineWriter {
 public:
  /// The first append() opens the file and creates it if it does not exist. With an empty path,
  /// nothing is ever written.
  explicit QuarantineWriter(std::string path) : path_(std::move(path)) {}

  bool enabled() const { return !path_.empty(); }

  /// Checks that the file can be written, so that a problem is found at the start and not at the
  /// first failure days later. Throws Error: kNotFound for a missing folder, kInvalidArgument for a
  /// FIFO or a socket, kIo.
  void check() const;

  /// Appends one line for the sample or the broken shard in `report`, with one system call. Writes
  /// nothing if the file had a line for it when it was opened or this writer has written one since,
  /// if the report has several samples (the bad one is unknown), or if their place is unknown.
  /// Throws Error (kIo, kNotFound for a missing folder).
  void append(const FailureReport& report);

 private:
  void open();
  void note_lines();

  const std::string path_;
  UniqueFd file_;
  bool is_new_ = false;                        // whether nothing was written since it was opened
  std::unordered_set<std::uint64_t> written_;  // place_digest() of lines in the file
};

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
  /// `quarantine_file` may be empty (no file). Throws Error if the file is not writable
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

  /// The two halves of add(), for failures that are counted later than they occur.
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
