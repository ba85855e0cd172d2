// Owning SQLite handles for the reader and the writer of index.sqlite; failures become Errors.
// Private to io: no public header includes it.

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include <sqlite3.h>

namespace energon {

struct SqliteCloser {
  void operator()(sqlite3* db) const { sqlite3_close_v2(db); }
};
using SqlitePtr = std::unique_ptr<sqlite3, SqliteCloser>;

/// The "file:" URI of a path, for SQLITE_OPEN_URI; '?', '#' and '%' in the path are ordinary
/// characters. `parameters` are such as "mode=ro".
std::string sqlite_uri(const std::string& path, std::string_view parameters);

/// Opens `path_or_uri` with SQLITE_OPEN_… `flags`; `path` is named in errors. Throws Error (kIo,
/// kNotFound, kCorruptData).
SqlitePtr open_sqlite(const std::string& path_or_uri, int flags, const std::string& path);

/// Disables code in the schema (triggers, views, functions), as sqlite.org/security.html advises
/// for untrusted files.
void distrust_schema(sqlite3* db);

/// Opens an untrusted file as read-only and immutable. Throws Error (kNotFound, kIo, kCorruptData).
SqlitePtr open_sqlite_defensively(const std::string& path);

/// Keeps a connection that a forked child inherited until the process ends. Closing it would touch
/// state that the parent owns; the memory goes with the process. Thread-safe.
void keep_inherited(std::shared_ptr<void> connection);

/// Whether there is a table called `name`. Views and virtual tables do not count.
bool has_table(sqlite3* db, std::string_view name, const std::string& path);

/// Throws the Error for `result`, which is not SQLITE_OK.
[[noreturn]] void throw_sqlite_error(sqlite3* db, int result, const std::string& path);

/// Runs statements without results.
void execute(sqlite3* db, const char* sql, const std::string& path);

/// One prepared statement. Must not outlive its connection or `path`.
class Statement {
 public:
  Statement(sqlite3* db, std::string_view sql, const std::string& path);

  /// Parameters count from 1. `text` must live until the next reset().
  void bind(int parameter, std::int64_t value);
  void bind(int parameter, std::string_view text);

  /// True if there is a row, false at the end.
  bool step();
  void reset();

  /// Columns count from 0. integer() throws Error (kCorruptData) unless the value is a non-negative
  /// integer, because the file is untrusted.
  std::int64_t integer(int column) const;
  std::string_view text(int column) const;  ///< valid until the next step() or reset()

 private:
  struct Finalizer {
    void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
  };

  sqlite3* db_;
  const std::string& path_;
  std::unique_ptr<sqlite3_stmt, Finalizer> statement_;
};

}  // namespace energon
