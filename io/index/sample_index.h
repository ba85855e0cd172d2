// Reads `.nv-meta/index.sqlite`, which finds samples and parts of a prepared dataset by name.
//
// tar_file_id is a shard's position in .info.json. The training path does not need this file;
// lookups by key, excluded samples, joins and file stores do. The file is opened read-only and
// immutable, and code in its schema (triggers, views, functions) is never run.
// docs/formats/energon_files.md gives the tables.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/concurrency.h"
#include "io/index/media_metadata.h"
#include "io/index/tar_index.h"

namespace energon {

struct SampleLocation {
  std::int64_t tar_file_id = 0;
  std::int64_t sample_index = 0;  ///< index in its shard
  ByteRange bytes;                ///< in the uncompressed tar; sample 0 at its true offset

  bool operator==(const SampleLocation&) const = default;
};

struct PartLocation {
  std::int64_t tar_file_id = 0;
  std::int64_t sample_index = 0;
  std::string part;
  ByteRange content;  ///< the part's own bytes, without headers

  bool operator==(const PartLocation&) const = default;
};

/// Not thread-safe: one object per thread. Open it after fork(): a database connection must not
/// cross a fork, so every function throws Error (kCancelled) in a process other than the
/// constructor's.
class SampleIndex {
 public:
  /// Throws Error: kNotFound, kIo, kCorruptData if it is not an index database.
  explicit SampleIndex(std::string path);
  ~SampleIndex();
  SampleIndex(const SampleIndex&) = delete;
  SampleIndex& operator=(const SampleIndex&) = delete;

  std::int64_t sample_count() const;

  /// False for files from older versions of Energon; samples are still found.
  bool has_parts() const { return has_parts_; }

  std::optional<SampleLocation> find_sample(std::string_view key) const;

  /// `name` is "key.part", split like member names. Throws Error (kUnsupported) if has_parts() is
  /// false.
  std::optional<PartLocation> find_part(std::string_view name) const;

  /// The parts of a sample, in tar order. Throws Error (kUnsupported) if has_parts() is false.
  std::vector<PartLocation> parts_of(std::string_view key) const;

  /// Calls `visit` for each part of one shard, in tar order; stops when `visit` returns false.
  /// Throws Error (kUnsupported) if has_parts() is false.
  void for_each_part_of(
      std::int64_t tar_file_id,
      const std::function<bool(std::string_view key, const PartLocation&)>& visit) const;

  /// Number of part rows of one shard, including those of samples without a row. Throws as
  /// for_each_part_of().
  std::int64_t count_part_rows(std::int64_t tar_file_id) const;

  /// False if energon prepare-media was never run on the dataset.
  bool has_media() const { return has_media_; }

  /// The metadata of the part `name`, exactly "key.part", or nullopt if it has no row. Throws
  /// Error: kUnsupported if has_media() is false, kCorruptData.
  std::optional<MediaMetadata> media_metadata(std::string_view name) const;

  /// Calls `visit` for each part of one shard that has metadata, with its sample's index and the
  /// metadata, in tar order. A nonempty `part` selects only parts with that name. Throws Error:
  /// kUnsupported if has_parts() or has_media() is false, kCorruptData.
  void for_each_media_of(
      std::int64_t tar_file_id, std::string_view part,
      const std::function<void(std::int64_t sample_index, const MediaMetadata&)>& visit) const;

  /// Calls `visit` for each sample in shard order; stops when `visit` returns false.
  void for_each_sample(
      const std::function<bool(std::string_view key, const SampleLocation&)>& visit) const;

  /// The same for the samples of one shard.
  void for_each_sample_of(
      std::int64_t tar_file_id,
      const std::function<bool(std::string_view key, const SampleLocation&)>& visit) const;

  /// At most `limit` keys that occur more than once. An intact prepared dataset has none.
  std::vector<std::string> duplicate_keys(std::int64_t limit) const;

  /// Reads the whole file and returns the problems that SQLite finds, if any.
  std::string check() const;

 private:
  struct Connection;

  Connection& connection() const;
  void require_parts() const;
  void require_media() const;

  const std::string path_;
  const OwnerProcess owner_;
  std::unique_ptr<Connection> connection_;
  bool has_parts_ = false;
  bool has_media_ = false;
};

}  // namespace energon
