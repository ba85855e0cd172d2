#include "media/metadata/add_media_metadata.h"

#include <atomic>
#include <set>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/dataset_folder.h"
#include "io/error.h"
#include "io/index/parallel_for.h"
#include "io/mutex.h"
#include "io/overloaded.h"
#include "io/prepare/media_update.h"
#include "media/metadata/part_media.h"

namespace energon {
namespace {

constexpr std::size_t kMostPartNames = 50;

// What one shard adds to the report.
struct ShardMedia {
  MediaMetadataReport counts = {};  // and the unreadable parts
  std::set<std::string, std::less<>> part_names = {};
};

class MediaRun {
 public:
  MediaRun(const std::string& path, const MediaFilter& filter, const MediaMetadataOptions& options)
      : path_(path), filter_(filter), options_(options), update_(path) {}

  MediaMetadataReport run() {
    const auto total = static_cast<std::int64_t>(update_.info().shards.size());
    shards_.resize(update_.info().shards.size());
    {
      const MutexLock lock(mutex_);
      progress_.shards_total = total;
    }
    rethrow_first(
        parallel_for(total, thread_count(options_.threads, total),
                     [this](std::int64_t i) { read_shard(static_cast<std::size_t>(i)); }));
    MediaMetadataReport report = sum();
    check_stop();
    if (report.media() > 0) {
      update_.add_filter(to_string(filter_.strategy),
                         fmt::format("{}", fmt::join(filter_.patterns, ",")));
      update_.commit();
    }
    return report;
  }

 private:
  void check_stop() const {
    if (options_.stop.stop_requested()) {
      throw Error(ErrorCode::kCancelled, "stopped; the dataset is as it was before",
                  {.path = path_});
    }
  }

  // In any thread. After an error in one shard, the others are not begun.
  void read_shard(std::size_t i) {
    if (has_failed_) {
      return;
    }
    try {
      read_parts(i);
    } catch (...) {
      has_failed_ = true;
      throw;
    }
    const MutexLock lock(mutex_);
    ++progress_.shards_done;
    report_progress();
  }

  void read_parts(std::size_t i) {
    check_stop();
    const ShardFile shard = open_prepared_shard(
        path_, update_.info(), i, {.needs_checksums = false, .cache_dir = options_.cache_dir});
    const FileSource tar(shard.tar_path);
    const SampleIndex index(update_.index_path());
    PartMediaReader reader(tar, index, filter_, options_);
    ShardMedia& result = shards_[i];
    index.for_each_part_of(
        static_cast<std::int64_t>(i), [&](std::string_view key, const PartLocation& part) {
          check_stop();
          ++result.counts.parts;
          if (result.part_names.size() < kMostPartNames) {
            result.part_names.insert(part.part);
          }
          take(fmt::format("{}.{}", key, part.part), part, index, reader, shard, result.counts);
          return !has_failed_;
        });
    result.counts.bytes = reader.bytes_read();
  }

  void take(const std::string& name, const PartLocation& part, const SampleIndex& index,
            PartMediaReader& reader, const ShardFile& shard, MediaMetadataReport& counts) {
    if (options_.keep_existing && index.has_media() && may_be_media(filter_, name) &&
        index.media_metadata(name)) {
      ++counts.kept;
      return;
    }
    std::visit(Overloaded{[](std::monostate) {},
                          [&](const MediaMetadata& metadata) {
                            ++(metadata.kind == MediaKind::kImage ? counts.images : counts.av);
                            add(name, metadata);
                          },
                          [&](const std::string& cause) {
                            if (++counts.unreadable <= std::int64_t{kMostUnreadableNamed}) {
                              counts.unreadable_named.push_back(
                                  {.shard = shard.name, .name = name, .cause = cause});
                            }
                          }},
               reader.read(name, part));
  }

  void add(const std::string& name, const MediaMetadata& metadata) {
    const MutexLock lock(mutex_);
    update_.add(name, metadata);
    ++progress_.media;
    report_progress();
  }

  void report_progress() const ENERGON_REQUIRES(mutex_) {
    if (options_.progress) {
      options_.progress(progress_);
    }
  }

  MediaMetadataReport sum() const {
    MediaMetadataReport report{.shards = static_cast<std::int64_t>(shards_.size())};
    std::set<std::string> names;
    for (const ShardMedia& shard : shards_) {
      report.parts += shard.counts.parts;
      report.images += shard.counts.images;
      report.av += shard.counts.av;
      report.kept += shard.counts.kept;
      report.unreadable += shard.counts.unreadable;
      report.bytes += shard.counts.bytes;
      for (const UnreadableMedia& part : shard.counts.unreadable_named) {
        if (report.unreadable_named.size() < kMostUnreadableNamed) {
          report.unreadable_named.push_back(part);
        }
      }
      names.insert(shard.part_names.begin(), shard.part_names.end());
    }
    for (const std::string& name : names) {
      if (report.part_names.size() < kMostPartNames) {
        report.part_names.push_back(name);
      }
    }
    return report;
  }

  const std::string& path_;
  const MediaFilter& filter_;
  const MediaMetadataOptions& options_;
  std::vector<ShardMedia> shards_;  // each written by one thread
  std::atomic<bool> has_failed_ = false;

  Mutex mutex_;
  MediaUpdate update_;  // add() under mutex_
  MediaMetadataProgress progress_ ENERGON_GUARDED_BY(mutex_);
};

}  // namespace

MediaMetadataReport add_media_metadata(const std::string& path, const MediaFilter& filter,
                                       const MediaMetadataOptions& options) {
  validate(filter);
  return MediaRun(path, filter, options).run();
}

}  // namespace energon
