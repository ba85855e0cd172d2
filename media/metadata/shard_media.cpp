#include "media/metadata/shard_media.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/dataset/dataset_folder.h"
#include "io/prepare/media_update.h"
#include "media/metadata/media_collector.h"
#include "media/metadata/part_media.h"

namespace energon {
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

  // In any thread.
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
  MediaUpdate update_;  // add() from one thread at a time
  MediaCollector collector_;
};

}  // namespace

MediaMetadataReport add_media_of_shards(const std::string& path, const MediaFilter& filter,
                                        const MediaMetadataOptions& options) {
  return ShardMediaRun(path, filter, options).run();
}

}  // namespace energon
