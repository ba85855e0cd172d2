// Joins: which samples of several datasets belong together.
//
// The join index, format JIDX0001, is the same bytes as Energon's. A row is one joined sample. For
// each dataset of the join it holds one place: the shard, as its position in the dataset's split
// part before exclusion, and the byte range of the sample in the uncompressed tar.
// docs/formats/energon_files.md gives the layout.
//
// The index is in the folder "<metadataset>.cache" next to the metadataset. Its name depends on the
// datasets' UUIDs, excluded samples and nonmatch modes, so an outdated index is no longer found.
// The name does not depend on the shards of the split part: after those change, energon prepare
// must be run again.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/file.h"
#include "io/index/tar_index.h"
#include "io/recipe/metadataset.h"
#include "io/recipe/recipe.h"

namespace energon {

// --- The index ---

/// Where a sample of one dataset is.
struct JoinPlace {
  std::int64_t shard = 0;  ///< position in the split part before exclusion
  ByteRange bytes;         ///< in the uncompressed tar

  bool operator==(const JoinPlace&) const = default;
};

/// One place per dataset; nullopt if the dataset lacks the sample (nonmatch: none). Never nullopt
/// for the first dataset.
using JoinRow = std::vector<std::optional<JoinPlace>>;

/// Reads rows from the file on demand. Thread-safe, and may be used after fork().
class JoinIndex {
 public:
  /// Opens `path`, which must have `columns` places per row. Throws Error: kNotFound, kIo,
  /// kCorruptData if it is not a join index.
  JoinIndex(const std::string& path, std::size_t columns);

  const std::string& path() const { return file_.path(); }
  std::size_t column_count() const { return columns_; }
  std::int64_t row_count() const { return rows_; }

  /// Throws Error: kInvalidArgument unless 0 <= i < row_count(), kCorruptData for an invalid row,
  /// kIo.
  JoinRow row(std::int64_t i) const;

  /// Calls visit(i, row) for all rows in order; reads many at a time. Throws as row().
  void for_each_row(const std::function<void(std::int64_t, const JoinRow&)>& visit) const;

  /// Reads all rows once and checks them. `tar_sizes[c][s]` is the size of shard `s` of column `c`,
  /// or empty if the shard is excluded. Throws Error (kCorruptData) with the first row that is out
  /// of order, or whose shard does not exist, is excluded, or ends before the sample.
  using TarSizes = std::vector<std::optional<std::uint64_t>>;
  void check(std::span<const TarSizes> tar_sizes) const;

 private:
  JoinRow decode(std::int64_t i, std::span<const std::int64_t> numbers) const;
  [[noreturn]] void fail(std::int64_t row, std::size_t column, const std::string& problem) const;

  FileSource file_;
  const std::size_t columns_;
  std::int64_t rows_ = 0;
};

/// Not thread-safe.
class JoinIndexWriter {
 public:
  /// Throws Error (kIo). `path` is not written before finish().
  JoinIndexWriter(const std::string& path, std::size_t columns);
  ~JoinIndexWriter();
  JoinIndexWriter(const JoinIndexWriter&) = delete;
  JoinIndexWriter& operator=(const JoinIndexWriter&) = delete;

  /// Requires: one place per column.
  void add(const JoinRow& row);

  /// Replaces `path` atomically.
  void finish();

 private:
  struct File;

  const std::size_t columns_;
  std::unique_ptr<File> file_;
};

/// What one dataset contributes to the name of a join index.
struct JoinNameField {
  std::string uuid = {};                   ///< the content of index.uuid
  std::vector<std::string> excludes = {};  ///< expanded entries of `exclude` that hold a '/'
  Nonmatch nonmatch = Nonmatch::kError;
  /// Split part and split file, if the name must distinguish them; Energon's name never does.
  std::optional<std::string> split = std::nullopt;
};

/// "join_index_<SHA-256>.bin". Excludes are sorted and deduplicated first. Energon hashes them in
/// the order of a Python set, so with two or more of them its name differs between processes.
std::string join_index_name(std::span<const JoinNameField> columns);

// --- The datasets of a join ---

/// One dataset of a join.
struct JoinSource {
  std::string dataset_path = {};  ///< absolute
  std::string split_part = {};
  Nonmatch nonmatch = Nonmatch::kError;
  std::string uuid = {};
  /// Shards of the split part before exclusion. JoinPlace::shard is a position in this list.
  std::vector<std::string> shards = {};
  std::vector<std::int64_t> tar_file_ids = {};   ///< ids of the shards in index.sqlite
  std::vector<std::int64_t> sample_counts = {};  ///< counts of the shards in .info.json
  std::vector<std::string> excludes = {};        ///< expanded, sorted, without duplicates

  /// Whether the shard at this position is excluded as a whole.
  bool is_shard_excluded(std::size_t position) const;
};

struct JoinFiles {
  std::string index_path = {};  ///< need not exist
  std::vector<JoinSource> sources = {};
};

/// The paths of the datasets of a join, for read_committed(). Code that reads more than
/// locate_join() must run inside read_committed().
std::vector<std::string> dataset_paths(const LeafReference& join);

/// Reads .info.json, the split file and index.uuid of each dataset. Requires: `join` is a leaf of
/// kind kJoin. Throws Error: kInvalidArgument if a dataset is not prepared, or its split part is
/// unknown or lists a shard twice; kCorruptData, kIo.
JoinFiles locate_join(const LeafReference& join);

/// The number of rows that the index of this join must have: one for each sample of the first
/// dataset that is not excluded. Nullopt if unknown: with "nonmatch: skip", only the join itself
/// knows which samples are skipped, and counting excluded samples needs index.sqlite, which may be
/// missing.
std::optional<std::int64_t> expected_rows(const JoinFiles& files);

/// Throws Error as JoinIndex; kInvalidArgument, with the command to run, if the join is not
/// prepared; kCorruptData if the number of rows is not expected_rows().
JoinIndex open_join_index(const JoinFiles& files, const LeafReference& join);

}  // namespace energon
