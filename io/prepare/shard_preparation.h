// What prepare() does with one shard, without looking at any other; and the shards of an earlier
// prepare with which nothing need be done again.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "io/dataset/dataset_info.h"
#include "io/dataset/scan_pipeline.h"
#include "io/dataset/shard_record.h"
#include "io/prepare/prepare.h"

namespace energon {

// --- One shard ---

/// Scans the tar at `path`. Writes its index to `index_path` and, where `options` asks for
/// checksums, these to `checksums_path`, both with `file_mode`. Thread-safe. Throws Error
/// (kCorruptData) for a tar that cannot be read, that was changed meanwhile, or that lost samples
/// since its earlier index was made: with Existing::kOverwrite, the latter is a warning of the
/// scan.
ScannedShard prepare_shard(const std::string& path, const std::string& index_path,
                           const std::string& checksums_path, unsigned file_mode,
                           const PrepareOptions& options);

// --- Shards of an earlier prepare ---

/// The first shards of a dataset, unchanged since they were prepared: their indices stay, and their
/// rows are read from `index.sqlite` instead of the tars.
struct PreviousPrepare {
  std::vector<ShardCount> shards = {};
  std::vector<ShardRecord> records = {};  ///< of these shards
  std::string index_path = {};            ///< has the rows of these shards and no others

  std::int64_t count() const { return static_cast<std::int64_t>(shards.size()); }
};

struct PreviousChoice {
  PreviousPrepare prepare = {};
  std::string why_none = {};  ///< if nothing can be taken over, though there was a prepare
};

/// Looks at the earlier prepare of `dataset_path`. It can be taken over if its shards are the first
/// of `names`, in the same order, and if each has the recorded size, modification time, headers and
/// index, and a file of checksums if `needs_checksums`. Everything else is a reason to scan all
/// shards again. `threads` compare the shards.
PreviousChoice find_previous_prepare(const std::string& dataset_path,
                                     std::span<const std::string> names, bool needs_checksums,
                                     int threads);

/// Reads shard `tar_file_id` of an earlier prepare back, as prepare_shard() found it. Thread-safe.
/// Throws Error (kCorruptData) if the rows of the shard are damaged.
ScannedShard read_prepared_shard(const PreviousPrepare& previous, std::int64_t tar_file_id);

}  // namespace energon
