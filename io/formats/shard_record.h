// What prepare() saw of each shard: `.nv-meta/shard_record.bin`.
//
// Energon's files do not tell one version of a shard from another with the same layout, and nothing
// vouches for an index. This file, which Energon passes over, records per shard its size, its
// modification time, a digest of headers and one of the index; and whether there are checksums. A
// folder without it, prepared by Energon or an older version, is read without these checks.
// docs/formats/shard_record.md gives the layout, docs/guarantees.md says what is checked when.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/bytes.h"
#include "io/file_source.h"
#include "io/formats/tar_index.h"

namespace energon {

struct ShardRecord {
  std::string name = {};         ///< as in .info.json
  std::uint64_t size_bytes = 0;  ///< of the shard's file, compressed if it is
  std::int64_t mtime_ns = 0;     ///< of that file, since 1970
  std::uint64_t header_digest = 0;
  std::uint64_t index_digest = 0;  ///< XXH3-64 of the index file

  bool operator==(const ShardRecord&) const = default;
};

/// Immutable after construction, so safe to share between threads.
class ShardRecords {
 public:
  /// Empty if `meta_folder` has no such file, or one of another prepare than its index.uuid: then
  /// nothing is recorded. Throws Error with the path: kCorruptData if the file is damaged,
  /// kUnsupported if a newer version wrote it, kIo.
  static std::optional<ShardRecords> load(const std::string& meta_folder);

  /// Throws Error (kCorruptData, kUnsupported); `path` is named in it.
  static ShardRecords parse(std::string_view content, const std::string& path);

  /// `uuid` is the content of index.uuid.
  ShardRecords(std::string uuid, bool has_checksums, std::vector<ShardRecord> shards);

  std::string encode() const;

  const std::string& uuid() const { return uuid_; }
  /// Whether every shard was given a checksum file.
  bool has_checksums() const { return has_checksums_; }
  const std::vector<ShardRecord>& shards() const { return shards_; }
  /// Null if nothing is recorded of a shard of this name.
  const ShardRecord* find(const std::string& name) const;

 private:
  std::string uuid_;
  bool has_checksums_;
  std::vector<ShardRecord> shards_;
  std::unordered_map<std::string, std::size_t> positions_;  // by name
};

/// XXH3-64 of the first header block of up to 64 samples of an uncompressed tar, evenly spread: one
/// short read each. Throws Error as FileSource::read_at().
std::uint64_t header_digest(const FileSource& tar, const TarIndex& index);

/// Whether the shard is the one that was recorded. `shard` is its file as it is now, `tar_path` its
/// uncompressed tar. Size and modification time as recorded: yes, nothing is read. The same size
/// and another time, of a copy: the headers decide. Throws Error (kCorruptData) that names the
/// shard and says what to do.
void check_recorded(const ShardRecord& record, const FileIdentity& shard,
                    const std::string& tar_path, const std::string& index_path);

/// Throws Error (kCorruptData) if `index`, read from `index_path`, is not the recorded one.
void check_recorded_index(std::uint64_t recorded_digest, const TarIndex& index,
                          const std::string& index_path);

/// Path of the file.
std::string shard_record_path(const std::string& meta_folder);

}  // namespace energon
