// The summary of a set of shards: what opening a dataset needs to know of each of them.
//
// With a summary, a dataset is opened without looking at its shards: names, counts and sizes are
// taken from it, and each shard is compared with it before it is read for the first time. prepare()
// writes one as `.nv-meta/shard_summary.bin`. It holds for one set of files only, whose digest is
// in it; with any other it counts as absent, and every shard is looked at.
// docs/formats/shard_summary.md gives the layout.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/dataset/shard_record.h"

namespace energon {

struct SummarizedShard {
  ShardRecord record = {};
  std::int64_t sample_count = 0;
  std::uint64_t end_offset = 0;  ///< where the samples end in the (uncompressed) tar
  bool has_checksums = false;
  std::uint64_t checksum_digest = 0;  ///< XXH3-64 of the checksum file; 0 if there is none
  bool is_index_in_cache = false;     ///< of a plain tar

  bool operator==(const SummarizedShard&) const = default;
};

struct ShardSummary {
  std::uint64_t set_digest = 0;  ///< of the files that it belongs to
  std::vector<SummarizedShard> shards = {};

  bool operator==(const ShardSummary&) const = default;

  std::string encode() const;
  /// Throws Error (kCorruptData, kUnsupported); `path` is named in it.
  static ShardSummary parse(std::string_view content, const std::string& path);
};

/// The set_digest for the files of one prepare: the contents of .info.json, index.uuid and
/// shard_record.bin.
std::uint64_t prepared_set_digest(std::string_view info_text, std::string_view uuid,
                                  std::string_view shard_record);

std::string shard_summary_path(const std::string& meta_folder);

/// The summary in `meta_folder`, whose .info.json has the content `info_text`. Null if there is
/// none, or none that belongs to the other files there, or if it is damaged or of a newer version.
/// Throws Error (kIo).
std::shared_ptr<const ShardSummary> load_shard_summary(const std::string& meta_folder,
                                                       std::string_view info_text);

}  // namespace energon
