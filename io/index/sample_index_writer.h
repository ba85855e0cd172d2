// Writes `index.sqlite` (io/index/sample_index.h) and `index.uuid` of a dataset being prepared.
//
// SQLite makes the schema; the rows are written around it (btree_builder.h), because they come in
// the order of every index but that of the keys, and those are sorted (key_sorter.h). So a row costs
// a fifth of its insertion by SQLite.
//
// Write to a temporary name: a killed writer leaves an unusable file. After finish(), the caller
// renames the file to its place.

#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/index/sample_index.h"
#include "io/tar/shard_scan.h"

namespace energon {

/// Where a sample is: its shard and its number there.
struct SamplePosition {
  std::int64_t tar_file_id = 0;
  std::int64_t sample_index = 0;

  bool operator==(const SamplePosition&) const = default;
};

/// A key that was added again.
struct RepeatedKey {
  std::string key;
  SamplePosition first;
  SamplePosition again;
};

struct RepeatedKeys {
  std::int64_t count = 0;                ///< samples whose key had been added before
  std::vector<RepeatedKey> named = {};  ///< the first of them, in the order of their addition
};

/// Memory does not grow with the number of rows. Not thread-safe.
class SampleIndexWriter {
 public:
  /// Creates `path`, which must not exist, and needs `path`.keys for a moment. No other process may
  /// open the file before finish(), because nothing is locked. `sort_bytes` is the memory for
  /// sorting keys; what exceeds it is sorted on disk. Throws Error (kIo).
  explicit SampleIndexWriter(std::string path, std::uint64_t sort_bytes = std::uint64_t{16} << 20);
  ~SampleIndexWriter();
  SampleIndexWriter(const SampleIndexWriter&) = delete;
  SampleIndexWriter& operator=(const SampleIndexWriter&) = delete;

  /// Adds a sample. Samples must come in the order of shards and of their numbers there, parts in
  /// the order of the tar. Throws Error (kIo); kInternal for another order.
  void add(std::string_view key, const SampleLocation& location,
           std::span<const ScannedPart> parts);

  /// Returns the keys that were added more than once; at most `most_named` of them are named. If
  /// there are none, the file is complete and on disk; otherwise it is of no use. Nothing can be
  /// added afterwards. Throws Error (kIo).
  RepeatedKeys finish(std::size_t most_named);

 private:
  struct Trees;

  void add_parts(const SampleLocation& location, std::span<const ScannedPart> parts);
  RepeatedKeys add_keys(std::size_t most_named);
  SamplePosition position_of(std::int64_t row) const;

  // Where the count of samples begins anew or skips a number: mostly once per shard.
  struct Start {
    std::int64_t row = 0;
    SamplePosition position;
  };

  const std::string path_;
  std::unique_ptr<Trees> trees_;
  std::int64_t samples_ = 0;  // as SQLite numbers rows, from 1: the last one
  std::int64_t parts_ = 0;    // the same
  std::vector<Start> starts_;
  SamplePosition last_ = {.tar_file_id = -1};
  std::vector<std::size_t> by_name_;  // the parts of a sample
};

/// A random UUID (version 4) as 36 characters.
std::string make_uuid();

}  // namespace energon
