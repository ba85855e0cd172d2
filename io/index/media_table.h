// The tables of media metadata in `index.sqlite`, as Energon 7.4 has them. SampleIndex reads them.
// Private to io. docs/formats/energon_files.md gives the tables.
//
// The file is changed by SQLite itself: unlike the samples, rows come in no order, and some are
// replaced.

#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "io/index/sqlite_handle.h"

namespace energon {

/// Defines both tables; those that exist stay.
inline constexpr const char* kMediaTables =
    "CREATE TABLE IF NOT EXISTS media_metadata (entry_key TEXT PRIMARY KEY, "
    "metadata_type TEXT NOT NULL, metadata_json TEXT NOT NULL);"
    "CREATE TABLE IF NOT EXISTS media_filters (filter_id INTEGER PRIMARY KEY AUTOINCREMENT, "
    "strategy TEXT NOT NULL, patterns TEXT, created_at_utc TEXT DEFAULT CURRENT_TIMESTAMP, "
    "UNIQUE(strategy, patterns))";

/// Whether a database has both tables. Throws Error (kCorruptData) if they are of another form.
bool has_media_tables(sqlite3* db, const std::string& path);

/// Adds to the tables of a database that nobody else has open, in one transaction. Not thread-safe,
/// but may move between threads.
class MediaTableWriter {
 public:
  /// Makes the tables if they are missing. Nothing is locked. Throws Error (kIo); kCorruptData for
  /// a file that is no database, or tables of another form.
  explicit MediaTableWriter(std::string path);
  MediaTableWriter(const MediaTableWriter&) = delete;
  MediaTableWriter& operator=(const MediaTableWriter&) = delete;

  /// Replaces a row with the same `entry_key`. Throws Error (kIo, kCorruptData).
  void add(std::string_view entry_key, std::string_view type, std::string_view json);

  /// Notes that a run with this filter was made, unless that is noted already.
  void add_filter(std::string_view strategy, std::string_view patterns);

  /// Ends the transaction and closes the file, which is then on disk. Nothing can be added
  /// afterwards; without finish() the file is of no use. Throws Error (kIo).
  void finish();

 private:
  const std::string path_;
  SqlitePtr db_;
  std::optional<Statement> add_;  // empty after finish(), like db_
};

/// Adds the rows of both tables of the database `from` to `to`, a complete database that nobody
/// else has open. False, and nothing is done, if `from` has no such tables. Throws Error (kIo,
/// kCorruptData).
bool copy_media_tables(const std::string& from, const std::string& to);

}  // namespace energon
