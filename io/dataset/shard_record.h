// What prepare() notes of each shard in `.nv-meta`, in files that Energon ignores: the record and
// the summary.
//
// The record, shard_record.bin, is the state of each shard when prepare() saw it. Energon's files
// cannot distinguish two versions of a shard with the same layout, and nothing verifies an index.
// The record has for each shard its size, its modification time, a digest of headers and a digest
// of the index; and whether there are checksums. A folder without it, prepared by Energon or an
// older version, is read without these checks. docs/formats/shard_record.md gives the layout,
// docs/guarantees.md says what is checked when.
//
// The summary, shard_summary.bin, is what opening a dataset needs to know of each shard. With it, a
// dataset is opened without looking at its shards: names, counts and sizes are taken from it, and
// each shard is compared with it before it is read for the first time. It holds for one set of
// files only, whose digest is in it; with any other it counts as absent, and every shard is looked
// at. docs/formats/shard_summary.md gives the layout.

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

// --- The record ---

struct ShardRecord {
  std::string name = {};         ///< as in .info.json
  std::uint64_t size_bytes = 0;  ///< of the shard's file as stored, compressed or not
  std::int64_t mtime_ns = 0;     ///< of that file, since 1970
  std::uint64_t header_digest = 0;
  std::uint64_t index_digest = 0;  ///< XXH3-64 of the index file

  bool operator==(const ShardRecord&) const = default;
};

/// Immutable after construction, so safe to share between threads.
class ShardRecords {
 public:
  /// `info` is the folder's .info.json. Returns nothing if this library did not write that, or if
  /// `meta_folder` has no such file or one from another prepare than its index.uuid. Throws Error
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
  /// Null if there is no record of a shard with this name.
  const ShardRecord* find(const std::string& name) const;

 private:
  std::string uuid_;
  bool has_checksums_;
  std::vector<ShardRecord> shards_;
  std::unordered_map<std::string, std::size_t> positions_;  // by name
};

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

// --- The summary ---

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
