#include "io/index/sample_index.h"

#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file_source.h"
#include "io/index/sqlite_handle.h"
#include "io/mutex.h"
#include "io/tar/member_name.h"

namespace energon {
namespace {

constexpr std::string_view kFindSample =
    "SELECT tar_file_id, sample_index, byte_offset, byte_size FROM samples WHERE sample_key = ?1";
constexpr std::string_view kFindParts =
    "SELECT p.tar_file_id, p.sample_index, p.part_name, p.content_byte_offset, p.content_byte_size "
    "FROM samples AS s JOIN sample_parts AS p "
    "ON p.tar_file_id = s.tar_file_id AND p.sample_index = s.sample_index "
    "WHERE s.sample_key = ?1 ORDER BY p.content_byte_offset";
constexpr std::string_view kSamplesOfShard =
    "SELECT tar_file_id, sample_index, byte_offset, byte_size, sample_key FROM samples "
    "WHERE tar_file_id = ?1 ORDER BY sample_index";
constexpr std::string_view kDuplicateKeys =
    "SELECT sample_key FROM samples GROUP BY sample_key HAVING count(*) > 1 LIMIT ?1";
constexpr std::string_view kAllSamples =
    "SELECT tar_file_id, sample_index, byte_offset, byte_size, sample_key FROM samples "
    "ORDER BY tar_file_id, sample_index";

SqlitePtr open_defensively(const std::string& path) {
  const FileSource exists(path);  // SQLite would report a missing file without saying so
  SqlitePtr db = open_sqlite(sqlite_uri(path, "mode=ro&immutable=1"),
                             SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, path);
  // The advice of sqlite.org/security.html for files from others.
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  sqlite3_db_config(db.get(), SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_limit(db.get(), SQLITE_LIMIT_LENGTH, 16 << 20);
  sqlite3_limit(db.get(), SQLITE_LIMIT_ATTACHED, 0);
  execute(db.get(), "PRAGMA cell_size_check = ON; PRAGMA mmap_size = 0", path);
  return db;
}

bool has_table(sqlite3* db, std::string_view name, const std::string& path) {
  // A view or a virtual table of that name is not what we read.
  Statement statement(
      db, "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?1 AND rootpage > 0", path);
  statement.bind(1, name);
  return statement.step();
}

SampleLocation read_sample(const Statement& row) {
  return {.tar_file_id = row.integer(0),
          .sample_index = row.integer(1),
          .bytes = {.offset = static_cast<std::uint64_t>(row.integer(2)),
                    .size = static_cast<std::uint64_t>(row.integer(3))}};
}

}  // namespace

struct SampleIndex::Connection {
  explicit Connection(const std::string& path) : db(open_defensively(path)) {}

  SqlitePtr db;
  std::optional<Statement> find_sample;
  std::optional<Statement> find_parts;
};

SampleIndex::SampleIndex(std::string path)
    : path_(std::move(path)),
      connection_(std::make_unique<Connection>(path_)),
      has_parts_(has_table(connection_->db.get(), "sample_parts", path_)) {
  sqlite3* db = connection_->db.get();
  if (!has_table(db, "samples", path_)) {
    throw Error(ErrorCode::kCorruptData, "index database: there is no table of samples",
                {.path = path_});
  }
  connection_->find_sample.emplace(db, kFindSample, path_);
  if (has_parts_) {
    connection_->find_parts.emplace(db, kFindParts, path_);
  }
}

SampleIndex::~SampleIndex() {
  if (!owner_.is_current()) {
    // Closing would touch state that the parent owns; the memory goes with the process. It stays in
    // reach, which tells leak checkers that it is meant.
    static Mutex mutex;
    using Connections = std::vector<std::unique_ptr<Connection>>;
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): without memory for it, nothing goes on
    static auto& inherited ENERGON_GUARDED_BY(mutex) = *new Connections();
    const MutexLock lock(mutex);
    inherited.push_back(std::move(connection_));
  }
}

SampleIndex::Connection& SampleIndex::connection() const {
  if (!owner_.is_current()) {
    throw Error(ErrorCode::kCancelled,
                "index database: opened before fork(), used after it; open it in the child",
                {.path = path_});
  }
  return *connection_;
}

void SampleIndex::require_parts() const {
  if (!has_parts_) {
    throw Error(
        ErrorCode::kUnsupported,
        "index database: it has no table of parts; prepare the dataset again to find parts by "
        "name",
        {.path = path_});
  }
}

std::int64_t SampleIndex::sample_count() const {
  Statement statement(connection().db.get(), "SELECT count(*) FROM samples", path_);
  statement.step();
  return statement.integer(0);
}

std::optional<SampleLocation> SampleIndex::find_sample(std::string_view key) const {
  Statement& statement = *connection().find_sample;
  statement.reset();
  statement.bind(1, key);
  if (!statement.step()) {
    return std::nullopt;
  }
  SampleLocation location = read_sample(statement);
  statement.reset();
  return location;
}

std::vector<PartLocation> SampleIndex::parts_of(std::string_view key) const {
  Connection& open = connection();
  require_parts();
  Statement& statement = *open.find_parts;
  statement.reset();
  statement.bind(1, key);
  std::vector<PartLocation> parts;
  while (statement.step()) {
    parts.push_back({.tar_file_id = statement.integer(0),
                     .sample_index = statement.integer(1),
                     .part = std::string(statement.text(2)),
                     .content = {.offset = static_cast<std::uint64_t>(statement.integer(3)),
                                 .size = static_cast<std::uint64_t>(statement.integer(4))}});
  }
  statement.reset();
  return parts;
}

std::optional<PartLocation> SampleIndex::find_part(std::string_view name) const {
  connection();
  require_parts();
  const auto split = split_member_name(name);
  if (!split) {
    return std::nullopt;
  }
  for (PartLocation& part : parts_of(split->key)) {
    if (part.part == split->part) {
      return std::move(part);
    }
  }
  return std::nullopt;
}

void SampleIndex::for_each_sample(
    const std::function<bool(std::string_view key, const SampleLocation&)>& visit) const {
  Statement statement(connection().db.get(), kAllSamples, path_);
  while (statement.step()) {
    if (!visit(statement.text(4), read_sample(statement))) {
      return;
    }
  }
}

void SampleIndex::for_each_sample_of(
    std::int64_t tar_file_id,
    const std::function<bool(std::string_view key, const SampleLocation&)>& visit) const {
  Statement statement(connection().db.get(), kSamplesOfShard, path_);
  statement.bind(1, tar_file_id);
  while (statement.step()) {
    if (!visit(statement.text(4), read_sample(statement))) {
      return;
    }
  }
}

std::vector<std::string> SampleIndex::duplicate_keys(std::int64_t limit) const {
  Statement statement(connection().db.get(), kDuplicateKeys, path_);
  statement.bind(1, limit);
  std::vector<std::string> keys;
  while (statement.step()) {
    keys.emplace_back(statement.text(0));
  }
  return keys;
}

std::string SampleIndex::check() const {
  std::string problems;
  try {
    Statement statement(connection().db.get(), "PRAGMA quick_check(20)", path_);
    while (statement.step()) {
      if (statement.text(0) != "ok") {
        problems += fmt::format("{}{}", problems.empty() ? "" : "; ", printable(statement.text(0)));
      }
    }
  } catch (const Error& error) {
    problems += fmt::format("{}{}", problems.empty() ? "" : "; ", error.message());
  }
  return problems;
}

}  // namespace energon
