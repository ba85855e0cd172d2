#include "io/index/media_table.h"

#include <utility>

#include "io/error.h"
#include "io/index/sqlite_handle.h"

namespace energon {
namespace {

// Without journal and locks: the file is our private copy, unusable until finish() returns.
constexpr const char* kMediaSettings =
    "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = OFF; PRAGMA synchronous = NORMAL; "
    "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0";

constexpr std::string_view kMediaOfEntry =
    "SELECT metadata_type, metadata_json FROM media_metadata WHERE entry_key = ?1";
constexpr std::string_view kAllMedia =
    "SELECT entry_key, metadata_type, metadata_json FROM media_metadata";
constexpr std::string_view kAllFilters =
    "SELECT strategy, patterns, created_at_utc FROM media_filters ORDER BY filter_id";

SqlitePtr open_media_tables(const std::string& path) {
  SqlitePtr db = open_sqlite(sqlite_uri(path, "mode=rw&vfs=unix-none"),
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, path);
  execute(db.get(), kMediaSettings, path);
  distrust_schema(db.get());
  execute(db.get(), "BEGIN", path);
  execute(db.get(), kMediaTables, path);
  return db;
}

}  // namespace

MediaTableWriter::MediaTableWriter(std::string path)
    : path_(std::move(path)), db_(open_media_tables(path_)) {
  add_.emplace(db_.get(),
               "INSERT OR REPLACE INTO media_metadata (entry_key, metadata_type, metadata_json) "
               "VALUES (?1, ?2, ?3)",
               path_);
}

void MediaTableWriter::add(std::string_view entry_key, std::string_view type,
                           std::string_view json) {
  add_->bind(1, entry_key);
  add_->bind(2, type);
  add_->bind(3, json);
  add_->step();
  add_->reset();
}

void MediaTableWriter::add_filter(std::string_view strategy, std::string_view patterns,
                                  std::string_view created_at_utc) {
  Statement statement(
      db_.get(),
      "INSERT OR IGNORE INTO media_filters (strategy, patterns, created_at_utc) VALUES (?1, ?2, "
      "CASE ?3 WHEN '' THEN CURRENT_TIMESTAMP ELSE ?3 END)",
      path_);
  statement.bind(1, strategy);
  statement.bind(2, patterns);
  statement.bind(3, created_at_utc);
  statement.step();
}

void MediaTableWriter::finish() {
  add_.reset();
  execute(db_.get(), "COMMIT", path_);
  db_.reset();
}

MediaMetadata parse_media_row(std::string_view type, std::string_view json,
                              std::string_view entry_key, const std::string& path) {
  try {
    return parse_media_json(type, json);
  } catch (Error& error) {
    throw error.with({.path = path, .sample_key = std::string(entry_key)});
  }
}

MediaTableReader::MediaTableReader(sqlite3* db, const std::string& path)
    : path_(path), find_(db, kMediaOfEntry, path_) {}

std::optional<MediaMetadata> MediaTableReader::find(std::string_view entry_key) {
  find_.reset();
  find_.bind(1, entry_key);
  if (!find_.step()) {
    return std::nullopt;
  }
  MediaMetadata metadata = parse_media_row(find_.text(0), find_.text(1), entry_key, path_);
  find_.reset();
  return metadata;
}

bool has_media_tables(sqlite3* db, const std::string& path) {
  if (!has_table(db, "media_metadata", path) || !has_table(db, "media_filters", path)) {
    return false;
  }
  const Statement rows(db, kAllMedia, path);
  const Statement filters(db, kAllFilters, path);
  return true;
}

bool copy_media_tables(const std::string& from, const std::string& to) {
  const SqlitePtr db = open_sqlite_defensively(from);
  if (!has_media_tables(db.get(), from)) {
    return false;
  }
  MediaTableWriter writer(to);
  Statement rows(db.get(), kAllMedia, from);
  while (rows.step()) {
    writer.add(rows.text(0), rows.text(1), rows.text(2));
  }
  Statement filters(db.get(), kAllFilters, from);
  while (filters.step()) {
    writer.add_filter(filters.text(0), filters.text(1), filters.text(2));
  }
  writer.finish();
  return true;
}

// --- The media of a folder of files ---

namespace {

SqlitePtr open_media_only(const std::string& path) {
  SqlitePtr db = open_sqlite_defensively(path);
  if (!has_table(db.get(), "media_metadata", path)) {
    throw Error(ErrorCode::kUnsupported, "index database: no media metadata", {.path = path});
  }
  return db;
}

}  // namespace

struct MediaIndex::Connection {
  explicit Connection(const std::string& path) : db(open_media_only(path)), rows(db.get(), path) {}

  SqlitePtr db;
  MediaTableReader rows;
};

MediaIndex::MediaIndex(std::string path)
    : path_(std::move(path)), connection_(std::make_unique<Connection>(path_)) {}

MediaIndex::~MediaIndex() {
  if (!owner_.is_current()) {
    keep_inherited(std::move(connection_));
  }
}

std::optional<MediaMetadata> MediaIndex::find(std::string_view entry_key) const {
  owner_.check("the index database of a folder");
  return connection_->rows.find(entry_key);
}

}  // namespace energon
