// From a path to the shards to read: one split of a prepared dataset, or plain tars.
//
// Opening checks what can be checked without reading samples (every shard and index is there, the
// counts agree, no shard is shorter than its index says) and resolves excluded samples to
// positions, so that what follows deals with numbers only. Problems are errors here, at
// construction, not hours later. docs/formats/energon_files.md lists the files that are read.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/file_source.h"
#include "io/tar/shard_scan.h"

namespace energon {

struct ShardFile {
  /// As in .info.json; of plain tars, relative to their common folder.
  std::string name = {};
  /// The uncompressed tar to read from: of a compressed shard, the expanded copy in the cache.
  std::string tar_path = {};
  std::string index_path = {};
  std::string checksum_path = {};  ///< empty if the shard has no checksums
  /// XXH3-64 of the index file, if prepare() recorded it (io/dataset/shard_record.h).
  std::optional<std::uint64_t> index_digest = std::nullopt;
  std::int64_t sample_count = 0;
  std::uint64_t tar_size = 0;
  /// Of `tar_path` at opening. A shard opened later with another identity has changed.
  FileIdentity tar_identity = {};
  /// Could not be opened: all its samples are excluded, only name and count are known.
  bool is_broken = false;

  bool operator==(const ShardFile&) const = default;
};

/// A sample that is skipped: positions in ShardSet::shards and in that shard.
struct SampleExclude {
  std::int64_t shard = 0;
  std::int64_t sample = 0;

  auto operator<=>(const SampleExclude&) const = default;
};

/// A shard that cannot be read: it keeps its place and its count, and all its samples are excluded.
struct BrokenShard {
  std::string name = {};
  ErrorCode code = ErrorCode::kCorruptData;
  std::string cause = {};
};

struct ShardSet {
  /// The dataset's folder, or the common folder of plain tars; absolute.
  std::string dataset_path = {};
  std::string kind = {};  ///< "prepared" or "plain"
  std::vector<ShardFile> shards = {};
  std::vector<SampleExclude> excludes = {};  ///< ascending, without duplicates
  std::vector<BrokenShard> broken = {};      ///< only with BrokenShards::kSkip
  std::vector<std::string> warnings = {};    ///< harmless, but worth showing once
};

struct OpenProgress {
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
};

/// What becomes of a shard that is missing, truncated, or contradicts its index. What the system
/// refuses for reasons of its own (kIo: too many open files, a disk or server that fails, memory,
/// permissions) is no fault of a shard and an Error in any case.
enum class BrokenShards : std::uint8_t {
  kFail,  ///< an Error
  /// Its samples are excluded, with a warning; the other samples keep their positions, so ranks
  /// that see different damage still divide the data alike. The count is that of .info.json, or of
  /// the index of a plain tar. An Error if the count is unknown, or if no shard is left.
  kSkip,
};

struct OpenOptions {
  /// Which part of a prepared dataset. Plain tars have no parts: every name means all of them.
  std::string split_part = "train";

  /// Name of the split file in .nv-meta. Absent: split.yaml, then split.json.
  std::optional<std::string> split_config = std::nullopt;

  /// Quarantine files (io/dataset/quarantine.h): what they name of this dataset is left out.
  std::vector<std::string> exclude_files = {};

  BrokenShards broken_shards = BrokenShards::kFail;

  /// Tars that do not end with zero blocks, or have other data behind them: a warning, or an Error.
  ScanStrictness strictness = ScanStrictness::kNormal;

  /// A shard without its checksum file, in a dataset that was prepared with checksums, is an Error;
  /// else it is read without.
  bool needs_checksums = true;

  /// Where indices and expanded copies go that cannot be kept beside the data. Absent:
  /// default_cache_dir().
  std::optional<std::string> cache_dir = std::nullopt;

  /// Threads that index, expand or check shards; they end before open_split() returns. Absent: one
  /// per core, at most 16.
  std::optional<int> index_threads = std::nullopt;

  /// Called after each shard, from one thread at a time.
  std::function<void(const OpenProgress&)> progress = nullptr;
};

/// `path` is a prepared dataset (a folder with .nv-meta), a folder of tars (searched recursively,
/// sorted by path component; hidden names are passed over), one tar, or a brace pattern of tars
/// such as "data/{000..099}.tar". Throws Error:
///   kNotFound         the path, a shard or an index does not exist
///   kInvalidArgument  not prepared completely, unknown split part (the known ones are named), bad
///                     split file, no samples
///   kCorruptData      a count, size or index contradicts another
///   kUnsupported      a kind of dataset that has no shards (JSONL, metadataset)
ShardSet open_split(const std::string& path, const OpenOptions& options = {});

/// One shard of the prepared dataset in `folder`, whatever split part it belongs to: that at
/// `position` in `info`, its .info.json. Throws Error as open_split().
ShardFile open_prepared_shard(const std::string& folder, const DatasetInfo& info,
                              std::size_t position, const OpenOptions& options = {});

/// Plain tars or brace patterns of tars, read in the order given.
ShardSet open_split(const std::vector<std::string>& paths, const OpenOptions& options = {});

}  // namespace energon
