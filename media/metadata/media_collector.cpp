#include "media/metadata/media_collector.h"

#include <utility>
#include <variant>
#include <vector>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/overloaded.h"

namespace energon {
namespace {

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

}  // namespace

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
    throw Error(ErrorCode::kCancelled, "stopped; the dataset is as it was before", {.path = path_});
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

}  // namespace energon
