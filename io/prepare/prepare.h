// Prepares a folder of shards: makes `.nv-meta`, an index per shard and, if asked, checksums.
//
// What it writes, Energon reads as if it had prepared the folder itself (docs/formats/
// energon_files.md); unlike Energon it refuses a damaged shard instead of indexing what is left of
// it. Everything is built in a staging folder beside .nv-meta. Of a prepare that fails or is
// stopped before the end nothing is used, and the next one removes what is left of it; one that is
// killed while it puts the files to their places is finished by whoever opens or prepares the
// folder next. So there is always the old set or the new one.

#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/dataset/split_config.h"
#include "io/tar/shard_scan.h"

namespace energon {

enum class Checksums { kNone, kWrite };

/// What to do with a folder that is prepared already.
enum class Existing { kRefuse, kOverwrite };

struct PrepareOptions {
  /// At most one of the two; with neither, every shard belongs to "train".
  std::vector<SplitRatio> split_ratios = {};
  std::vector<SplitPattern> split_patterns = {};

  /// Shards are left out in whose name one of these regular expressions is found anywhere.
  std::vector<std::string> exclude_regexes = {};

  Existing existing = Existing::kRefuse;

  /// Tars that do not end with zero blocks, or have other data behind them: a warning, or an Error.
  ScanStrictness strictness = ScanStrictness::kNormal;

  /// Digests of all samples (io/index/checksum_file.h). Reads every byte of the data.
  Checksums checksums = Checksums::kNone;

  /// A minimal loader definition (crude samples) of this name is written into .nv-meta, so that
  /// Energon can open the folder, unless one is there. Absent: none.
  std::optional<std::string> dataset_yaml_name = "dataset.yaml";

  /// Compressed shards are expanded into it (io/index/index_cache.h). Absent:
  /// default_cache_dir().
  std::optional<std::string> cache_dir = std::nullopt;

  /// Shards scanned at a time. Absent: one per core, at most 16. Each holds the names of one
  /// shard's samples and parts in memory.
  std::optional<int> threads = std::nullopt;

  /// Ends the work after the shards that are being scanned, with Error (kCancelled).
  std::stop_token stop = {};
};

struct PrepareProgress {
  std::int64_t shards_done = 0;
  std::int64_t shards_total = 0;
  std::int64_t samples = 0;
  std::uint64_t bytes = 0;  ///< of the uncompressed shards done
};

/// Told about each shard, in order, on the thread that called prepare().
class ProgressSink {
 public:
  virtual ~ProgressSink() = default;
  virtual void on_progress(const PrepareProgress& progress) = 0;
};

struct PrepareReport {
  std::int64_t shards = 0;
  std::int64_t samples = 0;
  std::int64_t parts = 0;
  std::uint64_t bytes = 0;              ///< of the uncompressed shards
  std::vector<std::string> part_names;  ///< distinct, sorted, the first 50 found
  SplitConfig split;                    ///< as written
  std::vector<std::string> warnings;
};

/// Prepares the folder `path`. Throws Error:
///   kNotFound         no such folder, or no shards in it
///   kInvalidArgument  prepared already, being prepared by another process, bad options, two shards
///                     with one index name
///   kCorruptData      damaged or empty shards, or keys that occur twice: all that were found are
///                     named, with shard, byte and reason
///   kCancelled        `stop` was requested; the folder is as it was
///   kIo               the folder can't be written
PrepareReport prepare(const std::string& path, const PrepareOptions& options,
                      ProgressSink& progress);

}  // namespace energon
