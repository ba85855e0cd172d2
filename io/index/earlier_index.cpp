#include "io/index/earlier_index.h"

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/sqlite_handle.h"

namespace energon {
namespace {

SqlitePtr open_earlier(const std::string& path) {
  return open_sqlite(sqlite_uri(path, "mode=ro&immutable=1"),
                     SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, path);
}

// Rows count from 1 without gaps.
std::int64_t last_row(sqlite3* db, std::string_view table, const std::string& path) {
  Statement statement(db, fmt::format("SELECT coalesce(max(rowid), 0) FROM {}", table), path);
  return statement.step() ? statement.integer(0) : 0;
}

}  // namespace

EarlierIndex::EarlierIndex(const std::string& path) : file_(path) {
  const SqlitePtr db = open_earlier(path);
  roots_ = read_index_roots(db.get(), path);
  counts_ = {.samples = last_row(db.get(), "samples", path),
             .parts = last_row(db.get(), "sample_parts", path)};
}

std::vector<std::string> EarlierIndex::part_names(std::size_t limit) const {
  const SqlitePtr db = open_earlier(file_.path());
  Statement list(db.get(),
                 "SELECT DISTINCT part_name FROM (SELECT part_name FROM sample_parts LIMIT 100000)",
                 file_.path());
  std::vector<std::string> names;
  while (names.size() < limit && list.step()) {
    names.emplace_back(list.text(0));
  }
  return names;
}

EarlierKeys::EarlierKeys(const EarlierIndex& index)
    : index_(index),
      cells_(index.file(), BtreeBuilder::Kind::kIndex, index.roots().samples_by_key) {}

std::optional<EarlierKeys::Key> EarlierKeys::next() {
  const std::optional<ByteView> cell = cells_.next();
  if (!cell) {
    return std::nullopt;
  }
  const std::optional<TextAndNumber> columns = decode_key(*cell);
  if (!columns || columns->number < 1 || columns->number > index_.counts().samples ||
      (!is_first_ && columns->text <= last_)) {
    throw Error(ErrorCode::kCorruptData, "index database: its keys are damaged or out of order",
                {.path = index_.file().path()});
  }
  is_first_ = false;
  last_ = columns->text;
  return Key{.cell = *cell, .key = columns->text, .row = columns->number};
}

}  // namespace energon
