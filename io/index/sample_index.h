// Finds samples and parts of a prepared dataset by name: the reader of `.nv-meta/index.sqlite`.
//
// tar_file_id is a shard's position in .info.json. The training path does without this file; it
// serves lookups by key, excluded samples, joins and file stores. The file is opened read-only and
// immutable, and nothing that its schema may carry (triggers, views, functions) is run.
// docs/formats/energon_files.md gives the tables.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/index/tar_index.h"

namespace energon {

struct SampleLocation {
  std::int64_t tar_file_id = 0;
  std::int64_t sample_index = 0;  ///< in its shard
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

/// Not thread-safe: one object per thread. Open it after fork(): a connection inherited from a
/// parent may not be used, and every function throws Error (kCancelled) in another process than the
/// constructor's.
class SampleIndex {
 public:
  /// Throws Error: kNotFound, kIo, kCorruptData if it is no such database.
  explicit SampleIndex(std::string path);
  ~SampleIndex();
  SampleIndex(const SampleIndex&) = delete;
  SampleIndex& operator=(const SampleIndex&) = delete;

  std::int64_t sample_count() const;

  /// False for files of older versions of Energon; samples are found all the same.
  bool has_parts() const { return has_parts_; }

  std::optional<SampleLocation> find_sample(std::string_view key) const;

  /// `name` is "key.part", split as member names are. Throws Error (kUnsupported) without parts.
  std::optional<PartLocation> find_part(std::string_view name) const;

  /// In the order of the tar. Throws Error (kUnsupported) without parts.
  std::vector<PartLocation> parts_of(std::string_view key) const;

  /// Calls `visit` for each sample in the order of the shards; stops when it returns false.
  void for_each_sample(
      const std::function<bool(std::string_view key, const SampleLocation&)>& visit) const;

  /// The same for the samples of one shard.
  void for_each_sample_of(
      std::int64_t tar_file_id,
      const std::function<bool(std::string_view key, const SampleLocation&)>& visit) const;

  /// At most `limit` keys that more than one sample has; of a prepared dataset, none has.
  std::vector<std::string> duplicate_keys(std::int64_t limit) const;

  /// Reads the whole file; returns what SQLite finds wrong with it, empty if nothing.
  std::string check() const;

 private:
  struct Connection;

  Connection& connection() const;
  void require_parts() const;

  const std::string path_;
  const pid_t owner_;
  std::unique_ptr<Connection> connection_;
  bool has_parts_ = false;
};

}  // namespace energon
