// The steps of prepare() for a single shard, independent of other shards, and the shards of an
// earlier prepare that can be reused.

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

/// Scans the tar at `path`. Writes its index to `index_path` and, if requested by `options`, its
/// checksums to `checksums_path`, both with `file_mode`. Thread-safe. Throws Error (kCorruptData)
/// for a tar that cannot be read, that changes meanwhile, or that has lost samples since it was
/// last indexed; with Existing::kOverwrite, lost samples are only a warning of the scan.
ScannedShard prepare_shard(const std::string& path, const std::string& index_path,
                           const std::string& checksums_path, unsigned file_mode,
                           const PrepareOptions& options);

// --- Shards of an earlier prepare ---

/// The first shards of a dataset, unchanged since they were prepared: their indices are kept, and
/// their rows are read from `index.sqlite` instead of the tars.
struct PreviousPrepare {
  std::vector<ShardCount> shards = {};
  std::vector<ShardRecord> records = {};  ///< of these shards
  std::string index_path = {};            ///< contains the rows of these shards only

  std::int64_t count() const { return static_cast<std::int64_t>(shards.size()); }
};

struct PreviousChoice {
  PreviousPrepare prepare = {};
  std::string why_none = {};  ///< the reason if there was a prepare that cannot be reused
};

/// Checks whether the earlier prepare of `dataset_path` can be reused: its shards are the first of
/// `names`, in the same order, and each has the recorded size, modification time, headers and
/// index, and a checksum file if `needs_checksums`. Anything else is a reason to scan all shards
/// again. Compares the shards on `threads` threads.
PreviousChoice find_previous_prepare(const std::string& dataset_path,
                                     std::span<const std::string> names, bool needs_checksums,
                                     int threads);

/// Reads shard `tar_file_id` of an earlier prepare, with the same result as prepare_shard().
/// Thread-safe. Throws Error (kCorruptData) if the rows of the shard are damaged.
ScannedShard read_prepared_shard(const PreviousPrepare& previous, std::int64_t tar_file_id);

}  // namespace energon
