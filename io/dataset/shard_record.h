// What prepare() records of each shard in `.nv-meta/shard_record.bin`, a file that Energon ignores.
//
// Energon's files cannot distinguish two versions of a shard with the same layout, and nothing
// verifies an index. The record has the size and modification time of each shard, digests of its
// headers, index and checksums, and where its samples end. A folder without the file, prepared by
// Energon, is read without these checks.
//
// A record that belongs to the very .info.json next to it also replaces looking at the shards when
// a dataset is opened: each shard is then compared with its record before it is read for the first
// time. docs/formats/shard_record.md gives the layout, docs/guarantees.md says what is checked
// when.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/bytes.h"
#include "io/dataset/dataset_info.h"
#include "io/file.h"
#include "io/index/tar_index.h"

namespace energon {

struct ShardRecord {
  std::string name = {};         ///< as in .info.json
  std::uint64_t size_bytes = 0;  ///< of the shard's file as stored, compressed or not
  std::int64_t mtime_ns = 0;     ///< of that file, since 1970
  std::int64_t sample_count = 0;
  std::uint64_t end_offset = 0;  ///< where the samples end in the (uncompressed) tar
  std::uint64_t header_digest = 0;
  std::uint64_t index_digest = 0;  ///< XXH3-64 of the index file
  bool has_checksums = false;
  std::uint64_t checksum_digest = 0;  ///< XXH3-64 of the checksum file; 0 if there is none
  bool is_index_in_cache = false;     ///< only for plain tars (PlainRecords)

  bool operator==(const ShardRecord&) const = default;
};

/// Immutable after construction, so safe to share between threads.
class ShardRecords {
 public:
  /// The record of the prepared dataset with this `meta_folder` and .info.json. Returns nullopt if
  /// this library did not write that file, or if there is no record or one from another prepare
  /// than index.uuid. Throws Error with the path: kCorruptData if the record is damaged,
  /// kUnsupported if a newer version wrote it, kIo.
  static std::optional<ShardRecords> load(const std::string& meta_folder, const DatasetInfo& info);

  /// The record in `meta_folder` if it belongs to .info.json with the content `info_text`, so that
  /// it can replace looking at the shards. Null if it does not, or if it is missing, damaged or
  /// from a newer version, which load() reports. Throws Error (kIo).
  static std::shared_ptr<const ShardRecords> load_matching(const std::string& meta_folder,
                                                           std::string_view info_text);

  /// Throws Error (kCorruptData, kUnsupported) that names `path`.
  static ShardRecords parse(std::string_view content, const std::string& path);

  ShardRecords() = default;
  /// `uuid`: the content of index.uuid. `set_digest`: what the record belongs to, such as
  /// prepared_set_digest().
  ShardRecords(std::string uuid, std::uint64_t set_digest, std::vector<ShardRecord> shards);

  std::string encode() const;

  const std::string& uuid() const { return uuid_; }
  std::uint64_t set_digest() const { return set_digest_; }
  /// Whether every shard was given a checksum file.
  bool has_checksums() const;
  const std::vector<ShardRecord>& shards() const { return shards_; }
  /// Null if there is no record of a shard with this name.
  const ShardRecord* find(const std::string& name) const;

 private:
  std::string uuid_;
  std::uint64_t set_digest_ = 0;
  std::vector<ShardRecord> shards_;
  std::unordered_map<std::string, std::size_t> positions_;  // by name
};

/// The set_digest for the files of one prepare: a digest of the contents of .info.json and
/// index.uuid.
std::uint64_t prepared_set_digest(std::string_view info_text, std::string_view uuid);

/// XXH3-64 over the first header blocks of up to 64 evenly spread samples of an uncompressed tar;
/// one short read for each. Throws Error as FileSource::read_at().
std::uint64_t header_digest(const FileSource& tar, const TarIndex& index);

/// Whether the file has the recorded modification time, exactly or truncated to whole seconds or
/// more digits, as after a copy.
bool has_recorded_time(const ShardRecord& record, const FileIdentity& shard);

/// Throws Error (kCorruptData) that names the shard and says what to do, unless it is the recorded
/// one. `shard` identifies its current file, `tar` is its uncompressed tar. If size and
/// modification time match the record, nothing is read. If only the time differs, as after a copy,
/// the headers decide.
void check_recorded(const ShardRecord& record, const FileIdentity& shard, const FileSource& tar,
                    const std::string& index_path);

/// The same, but remembers in the cache folder, by path, size and time of the file, that the
/// headers were compared. So the headers of a copy are read once; if the cache cannot be written,
/// each time.
void check_recorded_once(const ShardRecord& record, const FileSource& shard, const FileSource& tar,
                         const std::string& index_path,
                         const std::optional<std::string>& cache_dir);

/// Throws Error (kCorruptData) if `index`, read from `index_path`, is not the recorded one.
void check_recorded_index(std::uint64_t recorded_digest, const TarIndex& index,
                          const std::string& index_path);

/// The path of the record file.
std::string shard_record_path(const std::string& meta_folder);

}  // namespace energon
