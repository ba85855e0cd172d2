#include "io/index/sqlite_handle.h"

#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/concurrency.h"
#include "io/error.h"
#include "io/file.h"

namespace energon {

void throw_sqlite_error(sqlite3* db, int result, const std::string& path) {
  const int primary = result & 0xFF;  // extended codes carry the primary one in the low byte
  const ErrorCode code = primary == SQLITE_CORRUPT || primary == SQLITE_NOTADB ||
                                 primary == SQLITE_TOOBIG || primary == SQLITE_ERROR
                             ? ErrorCode::kCorruptData
                             : ErrorCode::kIo;
  throw Error(code,
              fmt::format("index database: {} ({})",
                          db != nullptr ? printable(sqlite3_errmsg(db)) : "no connection",
                          sqlite3_errstr(result)),
              {.path = path});
}

std::string sqlite_uri(const std::string& path, std::string_view parameters) {
  std::string uri = path.starts_with("//") ? "file://" : "file:";  // "//" would begin a host
  for (const char c : path) {
    if (c == '?' || c == '#' || c == '%') {
      uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
    } else {
      uri += c;
    }
  }
  return fmt::format("{}?{}", uri, parameters);
}

SqlitePtr open_sqlite(const std::string& path_or_uri, int flags, const std::string& path) {
  sqlite3* raw = nullptr;
  const int result = sqlite3_open_v2(path_or_uri.c_str(), &raw, flags, nullptr);
  SqlitePtr db(raw);  // even a failed open returns a handle that must be closed
  if (result != SQLITE_OK) {
    throw_sqlite_error(db.get(), result, path);
  }
  sqlite3_extended_result_codes(db.get(), 1);
  return db;
}

void distrust_schema(sqlite3* db) {
  sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
}

SqlitePtr open_sqlite_defensively(const std::string& path) {
  const FileSource exists(path);  // SQLite's own error would not mention that the file is missing
  SqlitePtr db = open_sqlite(sqlite_uri(path, "mode=ro&immutable=1"),
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, path);
  distrust_schema(db.get());
  sqlite3_limit(db.get(), SQLITE_LIMIT_LENGTH, 16 << 20);
  sqlite3_limit(db.get(), SQLITE_LIMIT_ATTACHED, 0);
  execute(db.get(), "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", path);
  return db;
}

void keep_inherited(std::shared_ptr<void> connection) {
  // Kept reachable, so leak checkers do not report it.
  static Mutex mutex;
  using Connections = std::vector<std::shared_ptr<void>>;
  // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): out of memory is fatal here
  static auto& inherited ENERGON_GUARDED_BY(mutex) = *new Connections();
  const MutexLock lock(mutex);
  inherited.push_back(std::move(connection));
}

bool has_table(sqlite3* db, std::string_view name, const std::string& path) {
  Statement statement(
      db, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND rootpage > 0", path);
  statement.bind(1, name);
  return statement.step();
}

void execute(sqlite3* db, const char* sql, const std::string& path) {
  if (const int result = sqlite3_exec(db, sql, nullptr, nullptr, nullptr); result != SQLITE_OK) {
    throw_sqlite_error(db, result, path);
  }
}

Statement::Statement(sqlite3* db, std::string_view sql, const std::string& path)
    : db_(db), path_(path) {
  sqlite3_stmt* raw = nullptr;
  const int result = sqlite3_prepare_v3(db, sql.data(), static_cast<int>(sql.size()),
                                        SQLITE_PREPARE_PERSISTENT, &raw, nullptr);
  statement_.reset(raw);
  if (result != SQLITE_OK) {
    throw_sqlite_error(db, result, path);
  }
}

void Statement::bind(int parameter, std::int64_t value) {
  if (const int result = sqlite3_bind_int64(statement_.get(), parameter, value);
      result != SQLITE_OK) {
    throw_sqlite_error(db_, result, path_);
  }
}

void Statement::bind(int parameter, std::string_view text) {
  // SQLITE_STATIC: the caller keeps the text; an empty view may have a null pointer, which is NULL.
  const int result =
      sqlite3_bind_text64(statement_.get(), parameter, text.data() != nullptr ? text.data() : "",
                          text.size(), SQLITE_STATIC, SQLITE_UTF8);
  if (result != SQLITE_OK) {
    throw_sqlite_error(db_, result, path_);
  }
}

bool Statement::step() {
  const int result = sqlite3_step(statement_.get());
  if (result != SQLITE_ROW && result != SQLITE_DONE) {
    throw_sqlite_error(db_, result, path_);
  }
  return result == SQLITE_ROW;
}

void Statement::reset() { sqlite3_reset(statement_.get()); }

std::int64_t Statement::integer(int column) const {
  const std::int64_t value = sqlite3_column_int64(statement_.get(), column);
  if (sqlite3_column_type(statement_.get(), column) != SQLITE_INTEGER || value < 0) {
    throw Error(ErrorCode::kCorruptData,
                fmt::format("index database: expected a count or offset in column {}",
                            sqlite3_column_name(statement_.get(), column)),
                {.path = path_});
  }
  return value;
}

std::string_view Statement::text(int column) const {
  const auto* data = sqlite3_column_text(statement_.get(), column);
  const int size = sqlite3_column_bytes(statement_.get(), column);
  return data == nullptr ? std::string_view()
                         : std::string_view(reinterpret_cast<const char*>(data),
                                            static_cast<std::size_t>(size));
}

}  // namespace energon
