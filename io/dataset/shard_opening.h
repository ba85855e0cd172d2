// Opens one shard of a split: finds its files and checks that they belong together, or takes its
// description from a record. open_split() opens many shards concurrently.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <fmt/format.h>

#include "io/dataset/dataset_folder.h"
#include "io/dataset/shard_list.h"
#include "io/dataset/shard_record.h"
#include "io/error.h"

namespace energon {

// --- Checking a shard ---

/// Collects warnings of shards that are opened concurrently, in the order of the shards.
class ShardWarnings {
 public:
  /// The names of the shards in `set`, which must outlive this, must not change.
  explicit ShardWarnings(const ShardSet& set) : set_(set), texts_(set.shards.size()) {}

  /// The warnings of one shard. Different threads may use different shards.
  std::vector<std::string>& of(std::size_t shard) { return texts_[shard]; }

  /// Appends at most 20 warnings, followed by one that counts the rest.
  void append_to(std::vector<std::string>& warnings) const {
    constexpr std::size_t kMost = 20;
    std::size_t count = 0;
    for (std::size_t i = 0; i < texts_.size(); ++i) {
      for (const std::string& text : texts_[i]) {
        if (++count <= kMost) {
          warnings.push_back(fmt::format("shard '{}': {}", printable(set_.shards[i].name), text));
        }
      }
    }
    if (count > kMost) {
      warnings.push_back(fmt::format("{} more shard warnings", count - kMost));
    }
  }

 private:
  const ShardSet& set_;
  std::vector<std::vector<std::string>> texts_;  // by shard
};

/// Checks that the index of `shard` fits `tar`, the open file at its tar_path, and sets the counts
/// and sizes. Returns a warning about the end of the tar, if there is one. Throws Error with the
/// shard's name.
std::optional<std::string> measure_shard(ShardFile& shard, const FileSource& tar,
                                         ScanStrictness strictness);

/// The warning for a tar without a zero block at `end_offset`, the end of its samples.
std::optional<std::string> missing_end(std::uint64_t end_offset, std::uint64_t tar_size);

/// Whether the options allow checking shards at their first read.
bool may_check_later(const OpenOptions& options);

/// Fills in `shard`, a plain tar in `folder` whose name is set; indexes it if necessary. Returns
/// warnings. Throws Error as open_split().
std::vector<std::string> open_plain_shard(ShardFile& shard, const std::string& folder,
                                          const OpenOptions& options);

/// Fills in `shard`, whose name is set, from the prepared dataset in `folder`. `record` is the
/// record of this shard; null if there is none. Returns a warning, if any. Throws Error as
/// open_split().
std::optional<std::string> open_shard(ShardFile& shard, std::int64_t count_in_info,
                                      const std::string& folder, const ShardRecord* record,
                                      const OpenOptions& options);

/// Throws Error (kNotFound) with the path of the checksum file if it is missing, although the
/// dataset was `prepared_with_checksums` and needs them. A missing file does not make the shard
/// broken, so it is an Error under every BrokenShards policy.
void check_has_checksums(const ShardFile& shard, bool prepared_with_checksums,
                         const OpenOptions& options);

/// Throws Error (kInvalidArgument) with the missing piece of a prepared dataset.
[[noreturn]] void fail_unprepared(const std::string& path, const std::string& what);

// --- Prepared shards, by their record ---

/// Immutable, so safe to share between threads.
class RecordedShards : public std::enable_shared_from_this<RecordedShards> {
 public:
  /// The record of the dataset in `folder`, whose .info.json has the content `info_text`. Null if
  /// the options require checks at opening, or if there is no record to replace them. Throws Error
  /// (kIo).
  static std::shared_ptr<const RecordedShards> find(const std::string& folder,
                                                    std::string_view info_text,
                                                    const OpenOptions& options);

  RecordedShards(std::string folder, const OpenOptions& options,
                 std::shared_ptr<const ShardRecords> records);

  /// All shards, as in .info.json.
  DatasetInfo info() const;

  /// Fills in the shards of `set`, whose names are set and in the record, without opening them,
  /// and sets ShardSet::check. Requires: a shared_ptr owns this.
  void open(ShardSet& set, const OpenOptions& options) const;

 private:
  ShardFile describe(const ShardRecord& shard) const;
  ShardFile check(const ShardFile& shard) const;

  const std::string folder_;
  const OpenOptions options_;
  const std::shared_ptr<const ShardRecords> records_;
};

// --- Plain tars, by what an earlier opening noted ---
//
// Plain tars are not prepared, so the counts that divide the data over ranks come from the tars
// themselves. Opening therefore still reads the size and modification time of each tar, with one
// system call. The rest is in `record/<name>-<digest>.bin` in the cache folder
// (shard_record.h), and is checked before a tar is read for the first time.

/// Immutable, so safe to share between threads.
class PlainRecords : public std::enable_shared_from_this<PlainRecords> {
 public:
  /// The record of the tars in the folder of `list`, empty at first. Null if the options require
  /// checks at opening, if there are few tars, or if there is no cache folder. Throws Error (kIo).
  static std::shared_ptr<const PlainRecords> find(const ShardList& list,
                                                  const OpenOptions& options);

  PlainRecords(std::string folder, const OpenOptions& options, std::string path);

  /// If the tar of `shard`, whose name is set, is the recorded one, fills in the rest and returns
  /// true. Adds a warning about its end, if any, to `warnings`.
  bool describe(ShardFile& shard, std::vector<std::string>& warnings) const;

  /// Adds the digests that note() needs to an opened shard. Throws Error if a file cannot be read.
  static void digest(ShardFile& shard);

  /// ShardSet::check for the shards that describe() filled in. Requires: a shared_ptr owns this.
  CheckShard check() const;

  /// Records the shards of `set` for the next opening, if any were opened. On failure, the next
  /// opening opens the tars again.
  void note(const ShardSet& set) const;

 private:
  ShardFile check(const ShardFile& shard) const;
  std::string index_path(const ShardFile& shard, bool is_in_cache) const;

  const std::string folder_;
  const OpenOptions options_;
  const std::string path_;
  ShardRecords records_;
};

}  // namespace energon
