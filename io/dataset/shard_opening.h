// Opens one shard of a split: finds its files and checks that they belong together, or takes over
// from a record what it is. open_split() calls it for many shards at a time.

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

// --- Looking at a shard ---

/// Collects warnings of shards that are opened concurrently, in the order of the shards.
class ShardWarnings {
 public:
  /// The names of the shards in `set`, which must outlive this, must not change.
  explicit ShardWarnings(const ShardSet& set) : set_(set), texts_(set.shards.size()) {}

  /// The warnings of one shard. Different threads may use different shards.
  std::vector<std::string>& of(std::size_t shard) { return texts_[shard]; }

  /// Appends all of them, but at most 20; then one more that counts the others.
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
      warnings.push_back(fmt::format("{} more warnings of shards", count - kMost));
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

/// What is odd about a tar whose samples end at `end_offset`: that it has no zero block there.
std::optional<std::string> missing_end(std::uint64_t end_offset, std::uint64_t tar_size);

/// Whether the options permit that shards are checked when they are read for the first time.
bool may_check_later(const OpenOptions& options);

/// Fills in `shard`, a plain tar in `folder` whose name is set; indexes it if it has no index yet.
/// Returns warnings. Throws Error as open_split().
std::vector<std::string> open_plain_shard(ShardFile& shard, const std::string& folder,
                                          const OpenOptions& options);

/// Fills in `shard`, whose name is set, from the prepared dataset in `folder`. `record`: of this
/// shard; null if there is none. Returns a warning, if there is one. Throws Error as open_split().
std::optional<std::string> open_shard(ShardFile& shard, std::int64_t count_in_info,
                                      const std::string& folder, const ShardRecord* record,
                                      const OpenOptions& options);

/// Throws Error (kNotFound) that names the checksum file of `shard`, if the dataset was
/// `prepared_with_checksums`, they are needed, and the file is missing. This does not make the
/// shard broken, so it is an Error with every BrokenShards policy.
void check_has_checksums(const ShardFile& shard, bool prepared_with_checksums,
                         const OpenOptions& options);

/// Throws Error (kInvalidArgument) that names the missing part of a prepared dataset.
[[noreturn]] void fail_unprepared(const std::string& path, const std::string& what);

// --- Prepared shards, by their record ---

/// Immutable, so safe to share between threads.
class RecordedShards : public std::enable_shared_from_this<RecordedShards> {
 public:
  /// The record of the dataset in `folder`, whose .info.json has the content `info_text`. Null if
  /// the options ask for checks at opening, or if there is no record that could replace them.
  /// Throws Error (kIo).
  static std::shared_ptr<const RecordedShards> find(const std::string& folder,
                                                    std::string_view info_text,
                                                    const OpenOptions& options);

  RecordedShards(std::string folder, const OpenOptions& options,
                 std::shared_ptr<const ShardRecords> records);

  /// All shards, as in .info.json.
  DatasetInfo info() const;

  /// Fills in the shards of `set`, whose names are set and in the record, without looking at them,
  /// and ShardSet::check. Requires that a shared_ptr owns this.
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
// Nothing is prepared here, so the counts that decide which rank reads what follow from the tars
// themselves. Hence opening still asks for the size and the modification time of each tar: one
// system call. The rest is in `record/<name>-<digest>.bin` in the cache folder
// (shard_record.h), and is checked before a tar is read for the first time.

/// Immutable, so safe to share between threads.
class PlainRecords : public std::enable_shared_from_this<PlainRecords> {
 public:
  /// The record of the tars in the folder of `list`, empty at first. Null if the options ask for
  /// checks at opening, if the tars are few, or if there is no cache folder. Throws Error (kIo).
  static std::shared_ptr<const PlainRecords> find(const ShardList& list,
                                                  const OpenOptions& options);

  PlainRecords(std::string folder, const OpenOptions& options, std::string path);

  /// If the tar of `shard`, whose name is set, is the one that was noted: fills in the rest and
  /// returns true. Adds what is odd about its end to `warnings`.
  bool describe(ShardFile& shard, std::vector<std::string>& warnings) const;

  /// Adds to a shard that was looked at what note() needs. Throws Error if a file cannot be read.
  static void digest(ShardFile& shard);

  /// ShardSet::check for the shards that were described. Requires that a shared_ptr owns this.
  CheckShard check() const;

  /// Notes the shards of `set` for the next opening, if it looked at any of them. Where that fails,
  /// the next opening looks again.
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
