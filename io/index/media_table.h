// The tables of media metadata in `index.sqlite`, as in Energon 7.4
// (docs/formats/energon_files.md). In a prepared dataset, they are stored next to the samples, and
// SampleIndex reads them. In a folder of files, `.nv-meta/index.sqlite` contains only these tables,
// the entry_key of a row is the file's path relative to the folder, and MediaIndex reads them.
//
// SQLite itself writes these tables: unlike samples, rows are unordered, and some are replaced.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "io/concurrency.h"
#include "io/index/media_metadata.h"
#include "io/index/sqlite_handle.h"

namespace energon {

/// Creates both tables unless they exist.
inline constexpr const char* kMediaTables =
    "CREATE TABLE IF NOT EXISTS media_metadata (entry_key TEXT PRIMARY KEY, "
    "metadata_type TEXT NOT NULL, metadata_json TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS media_filters (filter_id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "strategy TEXT NOT NULL, patterns TEXT, created_at_utc TEXT DEFAULT CURRENT_TIMESTAMP, "
    "UNIQUE(strategy, patterns))";

/// Whether a database has both tables. Throws Error (kCorruptData) if their schema differs.
bool has_media_tables(sqlite3* db, const std::string& path);

/// The metadata of a row. Throws Error (kCorruptData) that names `entry_key` and `path`.
MediaMetadata parse_media_row(std::string_view type, std::string_view json,
                              std::string_view entry_key, const std::string& path);

/// Finds rows by name. Must not outlive its connection or `path`. Not thread-safe.
class MediaTableReader {
 public:
  /// Throws Error (kCorruptData) if the table is missing or its schema differs.
  MediaTableReader(sqlite3* db, const std::string& path);

  /// Nullopt if the row does not exist. Throws Error (kCorruptData, kIo).
  std::optional<MediaMetadata> find(std::string_view entry_key);

 private:
  const std::string& path_;
  Statement find_;
};

/// Adds rows to the tables of a database that no one else has open, in one transaction. Not
/// thread-safe, but may move between threads.
class MediaTableWriter {
 public:
  /// Creates missing tables. Takes no locks. Throws Error (kIo); kCorruptData for a file that is
  /// not a database, or tables with a different schema.
  explicit MediaTableWriter(std::string path);
  MediaTableWriter(const MediaTableWriter&) = delete;
  MediaTableWriter& operator=(const MediaTableWriter&) = delete;

  /// Replaces a row with the same `entry_key`. Throws Error (kIo, kCorruptData).
  void add(std::string_view entry_key, std::string_view type, std::string_view json);

  /// Records a run with this filter, unless it is already recorded. `created_at_utc` is its time,
  /// such as "2026-01-31 12:00:00"; empty means now.
  void add_filter(std::string_view strategy, std::string_view patterns,
                  std::string_view created_at_utc = {});

  /// Commits the transaction, syncs and closes the file. No row can be added afterwards; without
  /// finish(), the file is unusable. Throws Error (kIo).
  void finish();

 private:
  const std::string path_;
  SqlitePtr db_;
  std::optional<Statement> add_;  // empty after finish(), like db_
};

/// Adds the rows of both tables of the database `from` to `to`, a complete database that no one
/// else has open. Returns false and does nothing if `from` lacks the tables. Throws Error (kIo,
/// kCorruptData).
bool copy_media_tables(const std::string& from, const std::string& to);

// --- The media of a folder of files ---

/// The file is opened read-only and immutable; code in its schema is never run. Not thread-safe.
/// Open it after fork(): find() throws Error (kCancelled) in a process other than the
/// constructor's.
class MediaIndex {
 public:
  /// Throws Error: kNotFound, kIo, kCorruptData if it is not a database, kUnsupported if it has no
  /// media metadata.
  explicit MediaIndex(std::string path);
  ~MediaIndex();
  MediaIndex(const MediaIndex&) = delete;
  MediaIndex& operator=(const MediaIndex&) = delete;

  /// The metadata of a file, or nullopt if it has no row. Throws Error (kCorruptData, kIo).
  std::optional<MediaMetadata> find(std::string_view entry_key) const;

  /// False in a forked child of the process that opened it.
  bool is_of_this_process() const { return owner_.is_current(); }

 private:
  struct Connection;

  const std::string path_;
  const OwnerProcess owner_;
  std::unique_ptr<Connection> connection_;
};

}  // namespace energon
