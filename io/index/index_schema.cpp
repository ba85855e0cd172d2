#include "io/index/index_schema.h"

#include <functional>
#include <map>
#include <string_view>
#include <tuple>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/btree_file.h"
#include "io/index/media_table.h"

namespace energon {
namespace {

constexpr const char* kSettings =
    "PRAGMA page_size = 4096; PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; "
    "PRAGMA locking_mode = EXCLUSIVE";

constexpr const char* kTables =
    "CREATE TABLE samples (tar_file_id INTEGER NOT NULL, sample_key TEXT NOT NULL UNIQUE, "
    "sample_index INTEGER NOT NULL, byte_offset INTEGER, byte_size INTEGER);"
    "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT, "
    "content_byte_offset INTEGER, content_byte_size INTEGER)";

constexpr const char* kIndices =
    "CREATE INDEX idx_samples_by_tar_and_idx ON samples(tar_file_id, sample_index);"
    "CREATE INDEX idx_sample_parts_seq "
    "ON sample_parts(tar_file_id, sample_index, content_byte_offset);"
    "CREATE INDEX idx_sample_parts_full ON sample_parts"
    "(tar_file_id, sample_index, part_name, content_byte_offset, content_byte_size)";

IndexRoots list_roots(sqlite3* db, const std::string& path) {
  std::map<std::string, std::uint32_t, std::less<>> roots;
  Statement list(db, "SELECT name, rootpage FROM sqlite_master", path);
  while (list.step()) {
    roots.emplace(list.text(0), static_cast<std::uint32_t>(list.integer(1)));
  }
  return {.samples = roots.at("samples"),
          .samples_by_key = roots.at("sqlite_autoindex_samples_1"),
          .samples_by_place = roots.at("idx_samples_by_tar_and_idx"),
          .parts = roots.at("sample_parts"),
          .parts_by_place = roots.at("idx_sample_parts_seq"),
          .parts_by_name = roots.at("idx_sample_parts_full")};
}

std::int64_t setting(sqlite3* db, std::string_view name, const std::string& path) {
  Statement statement(db, "PRAGMA " + std::string(name), path);
  return statement.step() ? statement.integer(0) : 0;
}

// Those of media metadata may be there, too.
constexpr std::string_view kIsOfMedia =
    "tbl_name IN ('media_metadata', 'media_filters', 'sqlite_sequence')";

bool has_objects_of_media(sqlite3* db, const std::string& path) {
  Statement list(db, fmt::format("SELECT 1 FROM sqlite_master WHERE {}", kIsOfMedia), path);
  return list.step();
}

// Whether only tables of media metadata may have left pages that are not in use.
bool has_unexpected_pages(sqlite3* db, const std::string& path) {
  return setting(db, "freelist_count", path) != 0 && !has_objects_of_media(db, path);
}

// Type, name and definition of each table and index but those of media metadata.
std::vector<std::tuple<std::string, std::string, std::string>> definitions(
    sqlite3* db, const std::string& path) {
  std::vector<std::tuple<std::string, std::string, std::string>> found;
  Statement list(
      db,
      fmt::format("SELECT type, name, sql FROM sqlite_master WHERE NOT {} ORDER BY type, name",
                  kIsOfMedia),
      path);
  while (list.step()) {
    found.emplace_back(list.text(0), list.text(1), list.text(2));
  }
  return found;
}

}  // namespace

IndexRoots create_index_schema(const std::string& path) {
  if (path_exists(path)) {
    throw Error(ErrorCode::kIo, "index database: exists already", {.path = path});
  }
  // Without locks, which some file systems don't have: nobody else knows the file.
  const SqlitePtr db = open_sqlite(
      sqlite_uri(path, "vfs=unix-none"),
      SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_URI, path);
  execute(db.get(), kSettings, path);
  execute(db.get(), "BEGIN", path);
  execute(db.get(), kTables, path);
  execute(db.get(), kIndices, path);
  execute(db.get(), "COMMIT", path);
  return list_roots(db.get(), path);
}

IndexRoots read_index_roots(sqlite3* db, const std::string& path) {
  const SqlitePtr own = open_sqlite(":memory:", SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, path);
  execute(own.get(), kTables, path);
  execute(own.get(), kIndices, path);
  if (definitions(db, path) != definitions(own.get(), path) ||
      setting(db, "page_size", path) != std::int64_t{kBtreePageBytes} ||
      has_unexpected_pages(db, path) || setting(db, "auto_vacuum", path) != 0 ||
      has_objects_of_media(db, path) != has_media_tables(db, path)) {
    throw Error(ErrorCode::kCorruptData, "index database: its tables are not as prepare makes them",
                {.path = path});
  }
  return list_roots(db, path);
}

}  // namespace energon
