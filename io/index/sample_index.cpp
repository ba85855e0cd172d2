#include "io/index/sample_index.h"

#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/media_table.h"
#include "io/index/sqlite_handle.h"
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
// Here and below, CROSS JOIN keeps SQLite from starting with the other table.
constexpr std::string_view kPartsOfShard =
    "SELECT p.tar_file_id, p.sample_index, p.part_name, p.content_byte_offset, "
    "p.content_byte_size, s.sample_key FROM sample_parts AS p CROSS JOIN samples AS s "
    "ON s.tar_file_id = p.tar_file_id AND s.sample_index = p.sample_index "
    "WHERE p.tar_file_id = ?1 ORDER BY p.sample_index, p.content_byte_offset";
constexpr std::string_view kCountPartRows =
    "SELECT count(*) FROM sample_parts WHERE tar_file_id = ?1";
constexpr std::string_view kMediaOfShard =
    "SELECT p.sample_index, p.part_name, m.metadata_type, m.metadata_json, s.sample_key "
    "FROM sample_parts AS p CROSS JOIN samples AS s "
    "ON s.tar_file_id = p.tar_file_id AND s.sample_index = p.sample_index "
    "CROSS JOIN media_metadata AS m ON m.entry_key = s.sample_key || '.' || p.part_name "
    "WHERE p.tar_file_id = ?1 AND (?2 = '' OR p.part_name = ?2) "
    "ORDER BY p.sample_index, p.content_byte_offset";
constexpr std::string_view kSamplesOfShard =
    "SELECT tar_file_id, sample_index, byte_offset, byte_size, sample_key FROM samples "
    "WHERE tar_file_id = ?1 ORDER BY sample_index";
constexpr std::string_view kDuplicateKeys =
    "SELECT sample_key FROM samples GROUP BY sample_key HAVING count(*) > 1 LIMIT ?1";
constexpr std::string_view kAllSamples =
    "SELECT tar_file_id, sample_index, byte_offset, byte_size, sample_key FROM samples "
    "ORDER BY tar_file_id, sample_index";

SampleLocation read_sample(const Statement& row) {
  return {.tar_file_id = row.integer(0),
          .sample_index = row.integer(1),
          .bytes = {.offset = static_cast<std::uint64_t>(row.integer(2)),
                    .size = static_cast<std::uint64_t>(row.integer(3))}};
}

PartLocation read_part(const Statement& row) {
  return {.tar_file_id = row.integer(0),
          .sample_index = row.integer(1),
          .part = std::string(row.text(2)),
          .content = {.offset = static_cast<std::uint64_t>(row.integer(3)),
                      .size = static_cast<std::uint64_t>(row.integer(4))}};
}

}  // namespace

struct SampleIndex::Connection {
  explicit Connection(const std::string& path) : db(open_sqlite_defensively(path)) {}

  SqlitePtr db;
  std::optional<Statement> find_sample;
  std::optional<Statement> find_parts;
  std::optional<MediaTableReader> media;
};

SampleIndex::SampleIndex(std::string path)
    : path_(std::move(path)),
      connection_(std::make_unique<Connection>(path_)),
      has_parts_(has_table(connection_->db.get(), "sample_parts", path_)),
      has_media_(has_table(connection_->db.get(), "media_metadata", path_)) {
  sqlite3* db = connection_->db.get();
  if (!has_table(db, "samples", path_)) {
    throw Error(ErrorCode::kCorruptData, "index database: no table of samples", {.path = path_});
  }
  connection_->find_sample.emplace(db, kFindSample, path_);
  if (has_parts_) {
    connection_->find_parts.emplace(db, kFindParts, path_);
  }
  if (has_media_) {
    connection_->media.emplace(db, path_);
  }
}

SampleIndex::~SampleIndex() {
  if (!owner_.is_current()) {
    keep_inherited(std::move(connection_));
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
    throw Error(ErrorCode::kUnsupported,
                "index database: no table of parts; prepare the dataset again to find parts by "
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
    parts.push_back(read_part(statement));
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

void SampleIndex::for_each_part_of(
    std::int64_t tar_file_id,
    const std::function<bool(std::string_view key, const PartLocation&)>& visit) const {
  Connection& open = connection();
  require_parts();
  Statement statement(open.db.get(), kPartsOfShard, path_);
  statement.bind(1, tar_file_id);
  while (statement.step()) {
    if (!visit(statement.text(5), read_part(statement))) {
      return;
    }
  }
}

std::int64_t SampleIndex::count_part_rows(std::int64_t tar_file_id) const {
  Connection& open = connection();
  require_parts();
  Statement statement(open.db.get(), kCountPartRows, path_);
  statement.bind(1, tar_file_id);
  statement.step();
  return statement.integer(0);
}

void SampleIndex::require_media() const {
  if (!has_media_) {
    throw Error(ErrorCode::kUnsupported,
                "index database: no media metadata; run energon prepare-media on the dataset",
                {.path = path_});
  }
}

std::optional<MediaMetadata> SampleIndex::media_metadata(std::string_view name) const {
  Connection& open = connection();
  require_media();
  return open.media->find(name);
}

void SampleIndex::for_each_media_of(
    std::int64_t tar_file_id, std::string_view part,
    const std::function<void(std::int64_t, const MediaMetadata&)>& visit) const {
  Connection& open = connection();
  require_parts();
  require_media();
  Statement statement(open.db.get(), kMediaOfShard, path_);
  statement.bind(1, tar_file_id);
  statement.bind(2, part);
  while (statement.step()) {
    visit(statement.integer(0),
          parse_media_row(statement.text(2), statement.text(3), statement.text(4), path_));
  }
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
