#include "media/metadata/add_media_metadata.h"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/concurrency.h"
#include "io/dataset/dataset_folder.h"
#include "io/dataset/dataset_kind.h"
#include "io/dataset/shard_list.h"
#include "io/error.h"
#include "io/index/media_metadata.h"
#include "io/index/media_table.h"
#include "io/overloaded.h"
#include "io/prepare/media_update.h"
#include "media/metadata/media_filter.h"
#include "media/metadata/part_media.h"

namespace energon {

// --- State shared by threads ---

namespace {

/// The contribution of one job (a shard or some files) to the report. Filled by one thread.
struct MediaShare {
  MediaMetadataReport counts = {};  ///< counts and unreadable parts
  std::set<std::string, std::less<>> part_names = {};

  void add_part_name(std::string_view name);
};

/// State shared by the threads of a run: the rows found, the progress, and whether to stop.
class MediaCollector {
 public:
  using AddRow = std::function<void(const std::string& name, const MediaMetadata&)>;

  /// `start` contains the totals of the progress. `add_row` is called by one thread at a time.
  /// `path` is for error messages; it and `options` must outlive the collector.
  MediaCollector(const std::string& path, const MediaMetadataOptions& options,
                 const MediaMetadataProgress& start, AddRow add_row);

  /// Calls `read` for each of `jobs`, in threads, and adds up the reports. Starts no job after an
  /// error. Throws the first error; kCancelled if options.stop was requested.
  MediaMetadataReport collect(std::int64_t jobs,
                              const std::function<void(std::int64_t job, MediaShare&)>& read);

  // For jobs.

  /// Whether to continue: false after an error in another job. Throws Error (kCancelled).
  bool goes_on() const;
  /// Records the result for the part `name` of `shard`. Thread-safe.
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

constexpr std::size_t kMostPartNames = 50;

MediaMetadataReport sum_of(const std::vector<MediaShare>& shares) {
  MediaMetadataReport report;
  std::set<std::string> names;
  for (const auto& [counts, part_names] : shares) {
    report.files += counts.files;
    report.parts += counts.parts;
    report.images += counts.images;
    report.av += counts.av;
    report.kept += counts.kept;
    report.unreadable += counts.unreadable;
    report.bytes += counts.bytes;
    for (const UnreadableMedia& part : counts.unreadable_named) {
      if (report.unreadable_named.size() < kMostUnreadableNamed) {
        report.unreadable_named.push_back(part);
      }
    }
    names.insert(part_names.begin(), part_names.end());
  }
  for (const std::string& name : names) {
    if (report.part_names.size() < kMostPartNames) {
      report.part_names.push_back(name);
    }
  }
  return report;
}

void MediaShare::add_part_name(std::string_view name) {
  if (part_names.size() < kMostPartNames && !part_names.contains(name)) {
    part_names.emplace(name);
  }
}

MediaCollector::MediaCollector(const std::string& path, const MediaMetadataOptions& options,
                               const MediaMetadataProgress& start, AddRow add_row)
    : path_(path), options_(options), add_row_(std::move(add_row)), progress_(start) {}

MediaMetadataReport MediaCollector::collect(
    std::int64_t jobs, const std::function<void(std::int64_t, MediaShare&)>& read) {
  std::vector<MediaShare> shares(static_cast<std::size_t>(jobs));  // each written by one thread
  rethrow_first(parallel_for(jobs, thread_count(options_.threads, jobs), [&](std::int64_t job) {
    run_job(job, read, shares[static_cast<std::size_t>(job)]);
  }));
  goes_on();
  return sum_of(shares);
}

void MediaCollector::run_job(std::int64_t job,
                             const std::function<void(std::int64_t, MediaShare&)>& read,
                             MediaShare& share) {
  if (has_failed_) {
    return;
  }
  try {
    goes_on();
    read(job, share);
  } catch (...) {
    has_failed_ = true;
    throw;
  }
}

bool MediaCollector::goes_on() const {
  if (options_.stop.stop_requested()) {
    throw Error(ErrorCode::kCancelled, "stopped; the dataset was not changed", {.path = path_});
  }
  return !has_failed_;
}

void MediaCollector::take(const std::string& name, std::string_view shard, const PartMedia& media,
                          MediaShare& share) {
  MediaMetadataReport& counts = share.counts;
  std::visit(Overloaded{[](std::monostate) {},
                        [&](const MediaMetadata& metadata) {
                          ++(metadata.kind == MediaKind::kImage ? counts.images : counts.av);
                          add(name, metadata);
                        },
                        [&](const std::string& cause) {
                          if (++counts.unreadable <= std::int64_t{kMostUnreadableNamed}) {
                            counts.unreadable_named.push_back(
                                {.shard = std::string(shard), .name = name, .cause = cause});
                          }
                        }},
             media);
}

void MediaCollector::add(const std::string& name, const MediaMetadata& metadata) {
  const MutexLock lock(mutex_);
  add_row_(name, metadata);
  ++progress_.media;
  report_progress();
}

void MediaCollector::add_done_shard() {
  const MutexLock lock(mutex_);
  ++progress_.shards_done;
  report_progress();
}

void MediaCollector::add_done_files(std::int64_t count) {
  const MutexLock lock(mutex_);
  progress_.files_done += count;
  report_progress();
}

void MediaCollector::report_progress() const {
  if (options_.progress) {
    options_.progress(progress_);
  }
}

}  // namespace

// --- Folders of files ---

namespace {

// Many files per job in a large folder, so that the index is not opened for each file; few in a
// small one, so that all threads have work.
std::size_t files_of_job(std::size_t files) {
  constexpr std::size_t kMost = 256;
  constexpr std::size_t kLeastJobs = 128;
  return std::clamp(files / kLeastJobs, std::size_t{1}, kMost);
}

std::string_view extension_of(std::string_view name) {
  const std::string_view last = name.substr(name.rfind('/') + 1);  // all of it if npos
  const std::size_t dot = last.rfind('.');
  return dot == std::string_view::npos || dot == 0 ? std::string_view() : last.substr(dot + 1);
}

class FolderMediaRun {
 public:
  FolderMediaRun(const std::string& path, const MediaFilter& filter,
                 const MediaMetadataOptions& options)
      : path_(path),
        filter_(filter),
        options_(options),
        update_(path),
        names_(list_files(path)),
        files_of_job_(files_of_job(names_.size())),
        collector_(path, options, {.files_total = static_cast<std::int64_t>(names_.size())},
                   [this](const std::string& name, const MediaMetadata& metadata) {
                     update_.add(name, metadata);
                   }) {}

  MediaMetadataReport run() {
    const std::size_t jobs = (names_.size() + files_of_job_ - 1) / files_of_job_;
    MediaMetadataReport report = collector_.collect(
        static_cast<std::int64_t>(jobs), [this](std::int64_t job, MediaShare& share) {
          read_files(static_cast<std::size_t>(job) * files_of_job_, share);
        });
    if (report.media() > 0) {
      update_.add_filter(to_string(filter_.strategy),
                         fmt::format("{}", fmt::join(filter_.patterns, ",")));
      update_.commit();
    }
    return report;
  }

 private:
  // Reads the files of one job, from `begin`. Called in any thread.
  void read_files(std::size_t begin, MediaShare& share) {
    const std::size_t end = std::min(begin + files_of_job_, names_.size());
    std::optional<MediaIndex> index;
    if (options_.keep_existing && update_.index_path()) {
      index.emplace(*update_.index_path());
    }
    MediaReader reader(filter_, options_);
    for (std::size_t i = begin; i < end && collector_.goes_on(); ++i) {
      const std::string& name = names_[i];
      ++share.counts.files;
      share.add_part_name(extension_of(name));
      if (index && may_be_media(filter_, name) && index->find(name)) {
        ++share.counts.kept;
      } else {
        collector_.take(name, "", reader.read_file(name, path_ + "/" + name), share);
      }
    }
    share.counts.bytes = reader.bytes_read();
    collector_.add_done_files(static_cast<std::int64_t>(end - begin));
  }

  const std::string& path_;
  const MediaFilter& filter_;
  const MediaMetadataOptions& options_;
  FolderMediaUpdate update_;  // add() is called by one thread at a time
  const std::vector<std::string> names_;
  const std::size_t files_of_job_;
  MediaCollector collector_;
};

/// As add_media_metadata() for a folder of files. `filter` is valid.
MediaMetadataReport add_media_of_folder(const std::string& path, const MediaFilter& filter,
                                        const MediaMetadataOptions& options) {
  return FolderMediaRun(path, filter, options).run();
}

}  // namespace

// --- Shards of a prepared dataset ---

namespace {

class ShardMediaRun {
 public:
  ShardMediaRun(const std::string& path, const MediaFilter& filter,
                const MediaMetadataOptions& options)
      : path_(path),
        filter_(filter),
        options_(options),
        update_(path),
        collector_(path, options, {.shards_total = shard_count()},
                   [this](const std::string& name, const MediaMetadata& metadata) {
                     update_.add(name, metadata);
                   }) {}

  MediaMetadataReport run() {
    MediaMetadataReport report =
        collector_.collect(shard_count(), [this](std::int64_t shard, MediaShare& share) {
          read_shard(static_cast<std::size_t>(shard), share);
        });
    report.shards = shard_count();
    if (report.media() > 0) {
      update_.add_filter(to_string(filter_.strategy),
                         fmt::format("{}", fmt::join(filter_.patterns, ",")));
      update_.commit();
    }
    return report;
  }

 private:
  std::int64_t shard_count() const {
    return static_cast<std::int64_t>(update_.info().shards.size());
  }

  // Called in any thread.
  void read_shard(std::size_t i, MediaShare& share) {
    const ShardFile shard = open_prepared_shard(
        path_, update_.info(), i, {.needs_checksums = false, .cache_dir = options_.cache_dir});
    const FileSource tar(shard.tar_path);
    const SampleIndex index(update_.index_path());
    MediaReader reader(filter_, options_);
    index.for_each_part_of(
        static_cast<std::int64_t>(i), [&](std::string_view key, const PartLocation& part) {
          ++share.counts.parts;
          share.add_part_name(part.part);
          const std::string name = fmt::format("{}.{}", key, part.part);
          if (is_kept(name, index)) {
            ++share.counts.kept;
          } else {
            collector_.take(name, shard.name, reader.read_part(name, part, tar, index), share);
          }
          return collector_.goes_on();
        });
    share.counts.bytes = reader.bytes_read();
    collector_.add_done_shard();
  }

  bool is_kept(const std::string& name, const SampleIndex& index) const {
    return options_.keep_existing && index.has_media() && may_be_media(filter_, name) &&
           index.media_metadata(name);
  }

  const std::string& path_;
  const MediaFilter& filter_;
  const MediaMetadataOptions& options_;
  MediaUpdate update_;  // add() is called by one thread at a time
  MediaCollector collector_;
};

/// As add_media_metadata() for a prepared dataset. `filter` is valid.
MediaMetadataReport add_media_of_shards(const std::string& path, const MediaFilter& filter,
                                        const MediaMetadataOptions& options) {
  return ShardMediaRun(path, filter, options).run();
}

}  // namespace

// --- Both ---

MediaMetadataReport add_media_metadata(const std::string& path, const MediaFilter& filter,
                                       const MediaMetadataOptions& options) {
  validate(filter);
  return detect_dataset_kind(path) == DatasetKind::kFolder
             ? add_media_of_folder(path, filter, options)
             : add_media_of_shards(path, filter, options);
}

}  // namespace energon
