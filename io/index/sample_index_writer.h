// Writes `index.sqlite` (io/index/sample_index.h) and `index.uuid` of a dataset being prepared.
//
// SQLite creates the schema; sqlite_pages.h writes the rows into pages. This is possible because
// rows arrive in the order of every index except that of the keys, which are sorted separately
// (key_sorter.h). A row costs a small fraction of an insertion by SQLite. Encoding takes most of
// the time, and needs only the row counts of other shards, so shards are encoded in parallel, and
// SampleIndexWriter only places cells into pages.
//
// Write to a temporary name: a killed writer leaves an unusable file. After finish(), the caller
// renames the file to its place.

#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/index/sqlite_pages.h"
#include "io/tar/shard_scan.h"

namespace energon {

// --- The rows of one shard ---

/// Number of rows in each table.
struct RowCounts {
  std::int64_t samples = 0;
  std::int64_t parts = 0;

  bool operator==(const RowCounts&) const = default;
};

RowCounts count_rows(const ShardScan& scan);

/// A key and its row, in key order.
struct SortedKey {
  std::uint32_t size = 0;
  std::uint32_t sample_index = 0;
};

/// The cells of each table and index, and the sorted keys, to be merged with those of other shards.
struct SampleRows {
  std::int64_t tar_file_id = 0;
  RowCounts counts = {};
  EncodedCells samples = {};
  EncodedCells samples_by_place = {};
  EncodedCells parts = {};
  EncodedCells parts_by_place = {};
  EncodedCells parts_by_name = {};
  std::string keys = {};  ///< sorted, one after another
  std::vector<SortedKey> sorted_keys = {};
};

/// Encodes the rows of shard `tar_file_id`; the shards before it have `before` rows.
SampleRows encode_rows(const ShardScan& scan, std::int64_t tar_file_id, const RowCounts& before);

// --- The writer ---

/// Position of a sample: its shard and its index there.
struct SamplePosition {
  std::int64_t tar_file_id = 0;
  std::int64_t sample_index = 0;

  bool operator==(const SamplePosition&) const = default;
};

/// A key that was added more than once.
struct RepeatedKey {
  std::string key;
  SamplePosition first;
  SamplePosition again;
};

struct RepeatedKeys {
  std::int64_t count = 0;               ///< number of samples whose key was already added
  std::vector<RepeatedKey> named = {};  ///< the first of these, in the order of addition
};

/// Memory does not grow with the number of rows. Not thread-safe.
class SampleIndexWriter {
 public:
  /// Creates `path`, which must not exist, and briefly uses `path`.keys. No other process may open
  /// the file before finish(), because it is not locked. `sort_bytes` is the memory for sorting
  /// keys; the excess is sorted on disk. Throws Error (kIo).
  explicit SampleIndexWriter(std::string path, std::uint64_t sort_bytes = std::uint64_t{16} << 20);
  ~SampleIndexWriter();
  SampleIndexWriter(const SampleIndexWriter&) = delete;
  SampleIndexWriter& operator=(const SampleIndexWriter&) = delete;

  /// Adds the rows of a shard (encode_rows()). Shards must be added in order, and `rows` must be
  /// numbered after the rows added before. Throws Error (kIo).
  void add(const SampleRows& rows);

  /// Returns the keys that were added more than once; at most `most_named` of them are listed. If
  /// there are none, the file is complete and on disk; otherwise it is unusable. No rows can be
  /// added afterwards. Throws Error (kIo).
  RepeatedKeys finish(std::size_t most_named);

 private:
  struct Trees;

  RepeatedKeys add_keys(std::size_t most_named);
  SamplePosition position_of(std::int64_t row) const;

  struct Start {
    std::int64_t row = 0;  // as SQLite numbers them, from 1
    std::int64_t tar_file_id = 0;
  };

  const std::string path_;
  std::unique_ptr<Trees> trees_;
  std::int64_t samples_ = 0;
  std::vector<Start> starts_;  // start of each shard
};

/// A random UUID (version 4) as 36 characters.
std::string make_uuid();

}  // namespace energon
