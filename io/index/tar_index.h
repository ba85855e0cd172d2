// The sample index of one shard: `<shard>.tar.idx`, the same bytes as Energon's.
//
// N + 1 little-endian u64: where each sample's first header block begins, then where the last
// sample ends. The file has no header or checksum, so loading checks everything that can be checked
// without reading the shard: length, order, alignment and the shard's size. The remaining damage
// (an offset moved to another member) is detected when a sample's headers are read.
// docs/formats/energon_files.md gives the layout.

#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace energon {

/// Immutable after construction, so safe to share between threads. Holds 8 bytes per sample in
/// memory; later changes to the file have no effect.
class TarIndex {
 public:
  /// Reads `index_path`, the index of a tar of `tar_size` bytes (the expanded size if the shard is
  /// compressed). Throws Error: kNotFound, kIo, kCorruptData if it is not the index of such a tar.
  static TarIndex load(const std::string& index_path, std::uint64_t tar_size);

  /// Checks `entries` as load() does; `index_path` is named in the error.
  static TarIndex from_entries(std::vector<std::uint64_t> entries, std::uint64_t tar_size,
                               const std::string& index_path = {});

  std::int64_t sample_count() const { return static_cast<std::int64_t>(entries_.size()) - 1; }

  /// The bytes of sample `i`, with headers, padding and skipped members that follow it. Sample 0
  /// begins at byte 0 whatever its entry says, as in Energon, so the ranges cover the tar without
  /// gaps. Throws Error: kInvalidArgument unless 0 <= i < sample_count().
  ByteRange range(std::int64_t i) const;

  /// As stored: sample_count() + 1 offsets.
  std::span<const std::uint64_t> entries() const { return entries_; }

  /// XXH3-64 of the file's bytes.
  std::uint64_t digest() const;

 private:
  TarIndex(SharedBytes content, std::uint64_t tar_size, const std::string& index_path);

  SharedBytes content_;
  std::span<const std::uint64_t> entries_;  // all of content_; never empty
};

/// The facts that the length and the last entry of an index file provide, without reading the rest.
struct TarIndexSummary {
  std::int64_t sample_count = 0;
  std::uint64_t end_offset = 0;  ///< end of the last sample
};

/// Throws Error as TarIndex::load(), but checks only the length and the last entry.
TarIndexSummary summarize_tar_index(const std::string& index_path, std::uint64_t tar_size);

/// The path of a shard's index: the last suffix of `shard_path` is replaced by ".tar.idx". So both
/// "a.tar" and "a.tgz" give "a.tar.idx", and "a.tar.gz" gives "a.tar.tar.idx".
std::string tar_index_path(std::string_view shard_path);

/// Throws Error (kInvalidArgument) that names both shards if two of `shards` share one index path.
void check_index_paths_differ(std::span<const std::string> shards);

/// Replaces `index_path` atomically. Throws Error (kIo).
void write_tar_index(const std::string& index_path, std::span<const std::uint64_t> entries,
                     unsigned mode = 0644);

/// The entries of an index of a tar or a JSONL file, both arrays of 64-bit offsets. Returns none
/// unless there are at least two, each a multiple of `unit_bytes` and larger than the one before.
/// Never throws Error: a file that cannot be read proves nothing.
std::vector<std::uint64_t> read_old_index(const std::string& index_path, std::uint64_t unit_bytes);

}  // namespace energon
