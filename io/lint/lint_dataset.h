// lint() for the files of a dataset and for its shards.
//
// Checks that the dataset's own files, .info.json, the split files and the shard summary
// (io/dataset/shard_record.h), agree. For a shard, checks the tar, its index and its checksums, and
// the contents of its parts: invalid JSON, damaged headers of images and audio, and problems that
// LintOptions::check_part reports.

#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "io/concurrency.h"
#include "io/dataset/scan_pipeline.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"
#include "io/lint/lint.h"

namespace energon {

// --- Findings of the threads of lint() ---

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

// --- The files of a dataset ---

/// The content of the dataset's own files. Plain tars have only a folder and names.
struct LintedDataset {
  std::string folder = {};
  std::vector<std::string> shards = {};
  std::vector<std::int64_t> counts = {};  ///< as in .info.json, if it exists
  std::string sqlite_path = {};           ///< empty if there is none
  std::optional<ShardRecords> records = std::nullopt;
  bool records_agree = false;  ///< with names and counts; then they are compared with each shard
};

/// Reads the files of the dataset at `path`, checks the split files, and adds problems to `report`.
/// Throws Error as lint().
LintedDataset lint_files(const std::string& path, const LintOptions& options, LintReport& report);

/// Converts `error` to a problem; `shard` may be empty.
LintProblem problem_of(const std::string& shard, const Error& error);

/// Compares `shard`, a record of the summary, with its index and its checksum file in `folder`.
/// Returns a problem, or "" if there is none. Throws Error if a file cannot be read.
std::string lint_recorded(const ShardRecord& shard, const std::string& folder);

// --- One shard ---

/// Scans the shard `name` and adds problems to `findings`. Throws Error if the tar cannot be
/// scanned to its end; the samples in the index have then been checked.
ScannedShard lint_shard(const LintedDataset& dataset, const std::string& name,
                        const LintOptions& options, LintFindings& findings);

}  // namespace energon
