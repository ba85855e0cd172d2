// Stores what the images, sounds and videos of a prepared dataset or a folder of files are like
// (size, format, duration, …) in its index.sqlite, where pipelines filter samples by it
// (`media_filter` of a metadataset) and cookers look it up (FileStore::get_media_metadata())
// without reading the data. In Energon: energon prepare-media, with tables of the same form.
//
// Below, a part is also a file of a folder of files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "media/decode_limits.h"
#include "media/metadata/media_filter.h"

namespace energon {

struct MediaMetadataProgress {
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
  std::int64_t files_done = 0;   ///< of a folder of files, which has no shards
  std::int64_t files_total = 0;  ///< likewise
  std::int64_t media = 0;        ///< parts or files whose metadata was found
};

struct MediaMetadataOptions {
  /// Parts that have metadata already are not read again. They are known by their names: a file
  /// that was changed since keeps its metadata.
  bool keep_existing = false;

  /// A sound or video with more bytes than this is not read, which needs all of it in memory.
  std::uint64_t max_part_bytes = std::uint64_t{1} << 32;
  DecodeLimits limits = {};

  /// Each reads one shard, or up to 256 files, at a time. Absent: one per core, at most 16.
  std::optional<int> threads = std::nullopt;
  /// Where compressed shards are expanded (io/index/index_cache.h). Absent: default_cache_dir().
  std::optional<std::string> cache_dir = std::nullopt;
  std::stop_token stop = {};
  /// Called from one thread at a time.
  std::function<void(const MediaMetadataProgress&)> progress = nullptr;
};

/// A part that the filter took for a medium, and whose metadata cannot be told.
struct UnreadableMedia {
  std::string shard = {};  ///< empty for a file of a folder
  std::string name = {};   ///< "key.part", or the path relative to the folder
  std::string cause = {};

  bool operator==(const UnreadableMedia&) const = default;
};

/// How many of them a report names.
inline constexpr std::size_t kMostUnreadableNamed = 20;

struct MediaMetadataReport {
  std::int64_t shards = 0;
  std::int64_t files = 0;                              ///< of a folder of files: of all kinds
  std::int64_t parts = 0;                              ///< of shards: of all kinds
  std::int64_t images = 0;                             ///< stored
  std::int64_t av = 0;                                 ///< stored: sound and video
  std::int64_t kept = 0;                               ///< had metadata already (keep_existing)
  std::int64_t unreadable = 0;                         ///< damaged, or of a kind that is not read
  std::uint64_t bytes = 0;                             ///< that were read
  std::vector<UnreadableMedia> unreadable_named = {};  ///< the first, in the order of the data
  /// Of all kinds: distinct, sorted, the first 50 found. Of files: the text after the last dot.
  std::vector<std::string> part_names = {};

  /// All that the filter took for media.
  std::int64_t media() const { return images + av + kept + unreadable; }
};

/// Reads the media of all shards of the prepared dataset `path`, whatever their split part, or all
/// media in a folder of files (DatasetKind::kFolder) and below it: of images the header, of sound
/// and video everything. Each gets a row, or a new one, named "key.part" or by the path relative to
/// the folder; other rows stay, also those of files that are gone. Links in a folder are followed,
/// except back. The data changes only at the end, all or nothing, and not at all if the filter
/// finds no media; index.uuid and joins stay valid. What cannot be read is counted and named in the
/// report. Of two runs at once the second is refused; where locks do not work, the first to end
/// counts. Throws Error:
///   kNotFound         no such folder, or a shard is missing
///   kInvalidArgument  tars that are not prepared, another process is at it, a bad filter
///   kUnsupported      index.sqlite has no table of parts: prepare again
///   kCorruptData      a shard or index.sqlite is damaged or was changed since it was prepared
///   kCancelled        options.stop was requested
///   kIo               also for a file that may not be read
MediaMetadataReport add_media_metadata(const std::string& path, const MediaFilter& filter,
                                       const MediaMetadataOptions& options = {});

}  // namespace energon
