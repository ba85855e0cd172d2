// Resolves a path to the shards to read: one split part of a prepared dataset, or plain tars.
//
// Opening checks everything that can be checked without reading samples: every shard and index
// exists, the counts agree, no shard is shorter than its index requires. On request, and if there
// is a record of the shards (io/dataset/shard_record.h), each shard is checked before its first
// read instead. Opening also resolves excluded samples to positions, so that later stages only use
// integers. docs/formats/energon_files.md lists the files that are read.

#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "io/dataset/dataset_info.h"
#include "io/error.h"
#include "io/file.h"
#include "io/index/media_metadata.h"
#include "io/tar/shard_scan.h"

namespace energon {

struct ShardFile {
  /// As in .info.json; for plain tars, relative to their common folder.
  std::string name = {};
  /// The uncompressed tar to read from; for a compressed shard, the expanded copy in the cache.
  std::string tar_path = {};
  std::string index_path = {};
  std::string checksum_path = {};  ///< empty if the shard has no checksums
  /// XXH3-64 of the index file, if prepare() recorded it (io/dataset/shard_record.h).
  std::optional<std::uint64_t> index_digest = std::nullopt;
  /// XXH3-64 of the index file of a plain tar, if a record recorded it.
  std::optional<std::uint64_t> noted_index_digest = std::nullopt;
  /// XXH3-64 of the checksum file, if a record recorded it (io/dataset/shard_record.h).
  std::optional<std::uint64_t> checksum_digest = std::nullopt;
  std::int64_t sample_count = 0;
  std::uint64_t tar_size = 0;
  /// Identity of `tar_path` at opening. A different identity later means that the shard has
  /// changed. Unknown if the shard is not checked.
  FileIdentity tar_identity = {};
  /// The shard could not be opened: all its samples are excluded, and only its name and count are
  /// known.
  bool is_broken = false;
  /// False if the shard was not opened and all fields come from a record. Then call
  /// ShardSet::check before reading the shard.
  bool is_checked = true;

  bool operator==(const ShardFile&) const = default;
};

/// A sample that is skipped: positions in ShardSet::shards and in that shard.
struct SampleExclude {
  std::int64_t shard = 0;
  std::int64_t sample = 0;

  auto operator<=>(const SampleExclude&) const = default;
};

/// A shard that cannot be read. It keeps its position and its count, and all its samples are
/// excluded.
struct BrokenShard {
  std::string name = {};
  ErrorCode code = ErrorCode::kCorruptData;
  std::string cause = {};
};

/// Checks an unchecked shard as open_split() would have, and returns the checked shard with its
/// identity. Throws Error as open_split(). Thread-safe.
using CheckShard = std::function<ShardFile(const ShardFile&)>;

struct ShardSet {
  /// The dataset's folder, or the common folder of plain tars; absolute.
  std::string dataset_path = {};
  std::string kind = {};  ///< "prepared" or "plain"
  std::vector<ShardFile> shards = {};
  std::vector<SampleExclude> excludes = {};  ///< ascending, without duplicates
  /// The same, of OpenOptions::exclude_files: an order draws these samples, and the reader leaves
  /// them out, so that all others keep their places in every order.
  std::vector<SampleExclude> excludes_in_place = {};
  std::string media_filter = {};           ///< OpenOptions::media_filter as text, if set
  std::vector<BrokenShard> broken = {};    ///< only with BrokenShards::kSkip
  std::vector<std::string> warnings = {};  ///< harmless, but worth showing once
  CheckShard check = nullptr;              ///< null if all shards are checked
};

struct OpenProgress {
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
};

/// What to do with a shard that is missing, truncated, or contradicts its index. Failures of the
/// system (kIo: too many open files, a failing disk or server, memory, permissions) are not the
/// shard's fault and always throw an Error.
enum class BrokenShards : std::uint8_t {
  kFail,  ///< an Error
  /// Its samples are excluded, with a warning. The other samples keep their positions, so ranks
  /// that see different damage still divide the data in the same way. The count comes from
  /// .info.json or, for a plain tar, from its index. An Error if the count is unknown, or if no
  /// shard is left.
  kSkip,
};

/// When each shard, with its index and checksum file, is compared with the prepared state.
enum class CheckShards : std::uint8_t {
  kAtOpening,
  /// Before its first read, in the process that reads it. Opening then makes no system call per
  /// shard, or one for each plain tar. Requires a record of the shards: a folder that prepare()
  /// prepared, or plain tars that were opened before; also uncompressed tars, BrokenShards::kFail
  /// and normal strictness. Otherwise shards are checked at opening.
  kAtFirstRead,
};

struct OpenOptions {
  /// The part of a prepared dataset to open. Plain tars have no parts: every name selects all of
  /// them.
  std::string split_part = "train";

  /// Name of the split file in .nv-meta. Unset means split.yaml or, if missing, split.json.
  std::optional<std::string> split_config = std::nullopt;

  /// Quarantine files (io/dataset/quarantine.h). The samples and shards of this dataset that they
  /// list are in ShardSet::excludes_in_place. A listed shard may be missing or damaged if its count
  /// is known; if not, it has no places and is dropped.
  std::vector<std::string> exclude_files = {};

  /// Skips samples that do not satisfy the condition, like excluded samples: they keep their
  /// positions and count toward the length of the dataset. Only for prepared datasets with media
  /// metadata (energon prepare-media). Reads the metadata of the whole split part.
  std::optional<MediaCondition> media_filter = std::nullopt;

  BrokenShards broken_shards = BrokenShards::kFail;

  /// open_split() for a reader that calls ShardSet::check, such as Webdataset, may check later.
  CheckShards check_shards = CheckShards::kAtOpening;

  /// Whether a tar without final zero blocks, or with other data after them, is a warning or an
  /// Error.
  ScanStrictness strictness = ScanStrictness::kNormal;

  /// Whether a missing checksum file is an Error in a dataset that was prepared with checksums. If
  /// false, such a shard is read without checksums.
  bool needs_checksums = true;

  /// Folder for indices and expanded copies that cannot be stored next to the data. Unset means
  /// default_cache_dir().
  std::optional<std::string> cache_dir = std::nullopt;

  /// Number of threads that index, expand or check shards; they end before open_split() returns.
  /// Unset means one per core, at most 16.
  std::optional<int> index_threads = std::nullopt;

  /// Called after each shard, from one thread at a time.
  std::function<void(const OpenProgress&)> progress = nullptr;
};

/// `path` is a prepared dataset (a folder with .nv-meta), a folder of tars (searched recursively,
/// sorted by path component; hidden names are skipped), one tar, or a brace pattern of tars such as
/// "data/{000..099}.tar". Throws Error:
///   kNotFound         the path, a shard or an index does not exist
///   kInvalidArgument  not prepared completely, unknown split part (the message lists the known
///   ones), bad
///                     split file, no samples
///   kCorruptData      counts, sizes or indices contradict each other
///   kUnsupported      a kind of dataset that has no shards (JSONL, metadataset)
ShardSet open_split(const std::string& path, const OpenOptions& options = {});

/// Opens one shard of the prepared dataset in `folder`, regardless of its split part: the shard at
/// `position` in `info`, the folder's .info.json. Throws Error as open_split().
ShardFile open_prepared_shard(const std::string& folder, const DatasetInfo& info,
                              std::size_t position, const OpenOptions& options = {});

/// Opens plain tars or brace patterns of tars, in the order of `paths`.
ShardSet open_split(const std::vector<std::string>& paths, const OpenOptions& options = {});

}  // namespace energon
