// What a loader remembers of the failures that its policies let pass.
//
// All of them are counted, by stage and shard; the newest are kept; each sample that a report names
// alone goes to the quarantine file, if there is one.

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

namespace energon {

/// Not thread-safe.
class FailureLog {
 public:
  /// `quarantine_file`: empty for none.
  /// Throws Error if it could not be written (QuarantineWriter::check()).
  explicit FailureLog(const std::string& quarantine_file) : quarantine_(quarantine_file) {
    quarantine_.check();
  }

  /// Throws Error (kIo) if the quarantine file cannot be written; the failure is counted all the
  /// same.
  void add(const FailureReport& report);

  /// Failures added so far.
  std::uint64_t size() const { return size_; }

  /// Puts counts and the newest reports into `statistics`.
  void fill(LoaderStatistics& statistics) const;

 private:
  void count(const FailureReport& report, const FailedSample& sample);

  using Place = std::tuple<std::string, std::string, std::string>;  // stage, dataset, shard

  std::map<Place, FailureCount> counts_;
  std::deque<FailureReport> newest_;
  std::uint64_t size_ = 0;
  QuarantineWriter quarantine_;
};

}  // namespace energon
