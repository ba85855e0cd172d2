// Writes `index.sqlite` (io/index/sample_index.h) and `index.uuid` of a dataset being prepared.
//
// SQLite makes the schema; the rows are put into pages by btree_builder.h, because they come in the
// order of every index but that of the keys, and those are sorted (key_sorter.h). So a row costs a
// small part of what its insertion by SQLite costs.
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

namespace energon {

class EarlierIndex;
struct SampleRows;

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
  std::int64_t count = 0;               ///< samples whose key had been added before
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

  /// Takes over all rows of an earlier index, whose shards have these counts of samples; before
  /// anything else is added. `earlier` must live until finish() returns. Throws Error (kIo);
  /// kCorruptData if `earlier` is damaged or has other counts.
  void add(const EarlierIndex& earlier, std::span<const std::int64_t> sample_counts);

  /// Adds the rows of a shard (sample_rows.h). Shards must come in order, and `rows` must be
  /// numbered behind those that were added before. Throws Error (kIo).
  void add(const SampleRows& rows);

  /// Returns the keys that were added more than once; at most `most_named` of them are named. If
  /// there are none, the file is complete and on disk; otherwise it is of no use. Nothing can be
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
  const EarlierIndex* earlier_ = nullptr;
  std::int64_t samples_ = 0;
  std::vector<Start> starts_;  // of the shards
};

/// A random UUID (version 4) as 36 characters.
std::string make_uuid();

}  // namespace energon
