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
#include "io/dataset/dataset_info.h"
#include "io/file_source.h"
#include "io/index/tar_index.h"

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
  /// `info` is the folder's .info.json. Nothing is recorded if this library did not write that, if
  /// `meta_folder` has no such file, or one of another prepare than its index.uuid. Throws Error
  /// with the path: kCorruptData if the file is damaged, kUnsupported if a newer version wrote it,
  /// kIo.
  static std::optional<ShardRecords> load(const std::string& meta_folder, const DatasetInfo& info);

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

/// Whether the file has the recorded modification time, or what a copy leaves of it: whole seconds,
/// or more digits, with the rest cut off.
bool has_recorded_time(const ShardRecord& record, const FileIdentity& shard);

/// Throws Error (kCorruptData) that names the shard and says what to do, unless it is the one that
/// was recorded. `shard` is its file as it is now, `tar` its uncompressed tar. Size and
/// modification time as recorded: it is, and nothing is read. The same size and another time, of a
/// copy: the headers decide.
void check_recorded(const ShardRecord& record, const FileIdentity& shard, const FileSource& tar,
                    const std::string& index_path);

/// The same. That the headers were compared is remembered in the cache folder by path, size and
/// time of the file, so that a copy is read once; where nothing can be kept there, each time.
void check_recorded_once(const ShardRecord& record, const FileSource& shard, const FileSource& tar,
                         const std::string& index_path,
                         const std::optional<std::string>& cache_dir);

/// Throws Error (kCorruptData) if `index`, read from `index_path`, is not the recorded one.
void check_recorded_index(std::uint64_t recorded_digest, const TarIndex& index,
                          const std::string& index_path);

/// Path of the file.
std::string shard_record_path(const std::string& meta_folder);

}  // namespace energon
