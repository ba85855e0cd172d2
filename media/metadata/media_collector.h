// What the threads of a run over media share: the rows they find, the progress, and an early end.
// Internal to media/metadata.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <string_view>

#include "io/concurrency.h"
#include "io/index/media_metadata.h"
#include "media/metadata/media_run.h"
#include "media/metadata/part_media.h"

namespace energon {

/// What one job, a shard or some files, adds to the report. Filled by one thread.
struct MediaShare {
  MediaMetadataReport counts = {};  ///< and the unreadable parts
  std::set<std::string, std::less<>> part_names = {};

  void add_part_name(std::string_view name);
};

class MediaCollector {
 public:
  using AddRow = std::function<void(const std::string& name, const MediaMetadata&)>;

  /// `start` has the totals of the progress. `add_row` is called from one thread at a time. `path`
  /// is named in errors; it and `options` must outlive the collector.
  MediaCollector(const std::string& path, const MediaMetadataOptions& options,
                 const MediaMetadataProgress& start, AddRow add_row);

  /// Calls `read` for each of `jobs`, in threads, and sums up. After an error the others are not
  /// begun. Throws the first error; kCancelled if options.stop was requested.
  MediaMetadataReport collect(std::int64_t jobs,
                              const std::function<void(std::int64_t job, MediaShare&)>& read);

  // For jobs.

  /// Whether to go on: false after an error in another job. Throws Error (kCancelled).
  bool goes_on() const;
  /// Takes what was read of the part `name` of `shard`. Thread-safe.
  void take(const std::string& name, std::string_view shard, const PartMedia& media,
            MediaShare& share);
  /// Adds to the progress. Thread-safe.
  void add_done_shard();
  void add_done_files(std::int64_t count);

 private:
  void run_job(std::int64_t job, const std::function<void(std::int64_t, MediaShare&)>& read,
               MediaShare& share);
  void add(const std::string& name, const MediaMetadata& metadata);
  void report_progress() const ENERGON_REQUIRES(mutex_);

  const std::string& path_;
  const MediaMetadataOptions& options_;
  const AddRow add_row_;  // under mutex_
  std::atomic<bool> has_failed_ = false;

  Mutex mutex_;
  MediaMetadataProgress progress_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace energon
