// Stores metadata of images, sound and video (size, format, duration, …) in the index.sqlite of a
// prepared dataset or a folder of files. Pipelines filter samples by it (`media_filter` of a
// metadataset) and cookers look it up (FileStore::get_media_metadata()) without reading the data.
// Like Energon's `energon prepare-media`, with tables of the same form.
//
// Below, a part is also a file in a folder of files.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "media/decode_limits.h"

namespace energon {

// --- Which parts are media: the strategies and extensions of Energon 7.4, and flv ---

enum class MediaStrategy : std::uint8_t {
  kExtension,  ///< by the text after the last dot of the name
  kHeader,     ///< by the first bytes of each part, or else by the name
  kGlob,       ///< parts whose name matches a pattern; their kind is found as for kHeader
};

/// As in the table media_filters: "EXTENSION", "HEADER", "GLOB".
std::string_view to_string(MediaStrategy strategy);

struct MediaFilter {
  MediaStrategy strategy = MediaStrategy::kExtension;
  /// For kGlob, at least one: patterns of "key.part", or of the path of a file relative to its
  /// folder. As in Python's fnmatch, a pattern must match the whole name:
  ///
  ///   *        any characters, even none; also dots and slashes
  ///   ?        one character
  ///   [a-z_]   one of these characters
  ///   [!a-z]   one character that is not one of these
  ///
  /// A bracket that is not closed matches itself. Patterns are case-sensitive.
  std::vector<std::string> patterns = {};
};

/// A kGlob filter of patterns separated by commas, such as "*.jpg,*.png".
MediaFilter glob_filter(std::string_view patterns);

// --- Storing metadata ---

struct MediaMetadataProgress {
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
  std::int64_t files_done = 0;   ///< of a folder of files, which has no shards
  std::int64_t files_total = 0;  ///< likewise
  std::int64_t media = 0;        ///< parts whose metadata was found
};

struct MediaMetadataOptions {
  /// Do not read parts again that already have metadata. Parts are identified by name: a file that
  /// was changed since keeps its metadata.
  bool keep_existing = false;

  /// Skip sound and video with more bytes: reading it needs all of it in memory.
  std::uint64_t max_part_bytes = std::uint64_t{1} << 32;
  DecodeLimits limits = {};

  /// Each thread reads one shard, or up to 256 files, at a time. Unset means one per core, at most
  /// 16.
  std::optional<int> threads = std::nullopt;
  /// Where compressed shards are expanded (io/index/index_cache.h). Unset means
  /// default_cache_dir().
  std::optional<std::string> cache_dir = std::nullopt;
  std::stop_token stop = {};
  /// Called by one thread at a time.
  std::function<void(const MediaMetadataProgress&)> progress = nullptr;
};

/// A part that the filter accepted but whose metadata could not be read.
struct UnreadableMedia {
  std::string shard = {};  ///< empty for a file in a folder
  std::string name = {};   ///< "key.part", or the path relative to the folder
  std::string cause = {};

  bool operator==(const UnreadableMedia&) const = default;
};

/// The maximum length of MediaMetadataReport::unreadable_named.
inline constexpr std::size_t kMostUnreadableNamed = 20;

struct MediaMetadataReport {
  std::int64_t shards = 0;
  std::int64_t files = 0;                              ///< files of all kinds in a folder of files
  std::int64_t parts = 0;                              ///< parts of all kinds in shards
  std::int64_t images = 0;                             ///< stored
  std::int64_t av = 0;                                 ///< stored: sound and video
  std::int64_t kept = 0;                               ///< already had metadata (keep_existing)
  std::int64_t unreadable = 0;                         ///< damaged or unsupported
  std::uint64_t bytes = 0;                             ///< bytes read
  std::vector<UnreadableMedia> unreadable_named = {};  ///< the first, in the order of the data
  /// Distinct names of parts of all kinds, sorted, the first 50 found. For files, the text after
  /// the last dot of their names.
  std::vector<std::string> part_names = {};

  /// All parts that the filter accepted.
  std::int64_t media() const { return images + av + kept + unreadable; }
};

/// Reads the media of all shards of the prepared dataset `path`, whatever their split part, or all
/// media in a folder of files (DatasetKind::kFolder) and its subfolders. Reads the header of
/// images, and all of sound and video. Writes one row per part, named "key.part" or by the path
/// relative to the folder, and keeps other rows, even those of files that no longer exist. Follows
/// links in a folder unless they form a loop.
///
/// The index changes only at the end, all or nothing, and not at all if the filter finds no media;
/// index.uuid and joins stay valid. Unreadable parts are counted and named in the report. If two
/// runs overlap, the second is refused; where locks do not work, the first to end wins. Throws
/// Error:
///   kNotFound         no such folder, or a shard is missing
///   kInvalidArgument  tars that are not prepared, another run is in progress, an invalid filter
///   kUnsupported      index.sqlite has no table of parts: prepare the dataset again
///   kCorruptData      a shard or index.sqlite is damaged or was changed since it was prepared
///   kCancelled        options.stop was requested
///   kIo               also if permission to read a file is denied
MediaMetadataReport add_media_metadata(const std::string& path, const MediaFilter& filter,
                                       const MediaMetadataOptions& options = {});

}  // namespace energon
