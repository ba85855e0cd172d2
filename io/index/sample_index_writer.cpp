#include "io/index/sample_index_writer.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <functional>
#include <iterator>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "io/index/btree_builder.h"
#include "io/index/btree_file.h"
#include "io/index/key_sorter.h"
#include "io/index/row_encoder.h"
#include "io/index/sqlite_handle.h"
#include "io/path_exists.h"

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

// The page at which a tree begins, by the name of its table or index.
using Roots = std::map<std::string, std::uint32_t, std::less<>>;

// Writes a file with the tables and indices, without rows.
Roots create_schema(const std::string& path) {
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
  Roots roots;
  Statement list(db.get(), "SELECT name, rootpage FROM sqlite_master", path);
  while (list.step()) {
    roots.emplace(list.text(0), static_cast<std::uint32_t>(list.integer(1)));
  }
  return roots;
}

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

struct SampleIndexWriter::Trees {
  Trees(const std::string& path, std::uint64_t sort_bytes)
      : Trees(path, create_schema(path), sort_bytes) {}

  Trees(const std::string& path, const Roots& roots, std::uint64_t sort_bytes)
      : file(path),
        samples(file, BtreeBuilder::Kind::kTable, roots.at("samples")),
        samples_by_key(file, BtreeBuilder::Kind::kIndex, roots.at("sqlite_autoindex_samples_1")),
        samples_by_place(file, BtreeBuilder::Kind::kIndex, roots.at("idx_samples_by_tar_and_idx")),
        parts(file, BtreeBuilder::Kind::kTable, roots.at("sample_parts")),
        parts_by_place(file, BtreeBuilder::Kind::kIndex, roots.at("idx_sample_parts_seq")),
        parts_by_name(file, BtreeBuilder::Kind::kIndex, roots.at("idx_sample_parts_full")),
        keys(path + ".keys", sort_bytes) {}

  BtreeFile file;
  BtreeBuilder samples;
  BtreeBuilder samples_by_key;
  BtreeBuilder samples_by_place;
  BtreeBuilder parts;
  BtreeBuilder parts_by_place;
  BtreeBuilder parts_by_name;
  KeySorter keys;
  RowEncoder encoder;

  // The columns of a row or key; an index has the number of the table's row behind its own.
  template <class... Columns>
  ByteView encode(const Columns&... columns) {
    encoder.clear();
    (encoder.add(columns), ...);
    return encoder.row();
  }
};

SampleIndexWriter::SampleIndexWriter(std::string path, std::uint64_t sort_bytes)
    : path_(std::move(path)), trees_(std::make_unique<Trees>(path_, sort_bytes)) {}

SampleIndexWriter::~SampleIndexWriter() = default;

void SampleIndexWriter::add(std::string_view key, const SampleLocation& location,
                            std::span<const ScannedPart> parts) {
  const SamplePosition position{.tar_file_id = location.tar_file_id,
                                .sample_index = location.sample_index};
  const bool is_same_shard = position.tar_file_id == last_.tar_file_id;
  if (position.tar_file_id < last_.tar_file_id ||
      (is_same_shard && position.sample_index <= last_.sample_index)) {
    throw Error(ErrorCode::kInternal, "index database: samples out of order",
                {.path = path_, .sample_key = std::string(key)});
  }
  const std::int64_t row = ++samples_;
  if (!is_same_shard || position.sample_index != last_.sample_index + 1) {
    starts_.push_back({.row = row, .position = position});
  }
  last_ = position;
  trees_->samples.add_row(
      row, trees_->encode(location.tar_file_id, key, location.sample_index,
                          as_signed(location.bytes.offset), as_signed(location.bytes.size)));
  trees_->samples_by_place.add_key(
      trees_->encode(location.tar_file_id, location.sample_index, row));
  trees_->keys.add(key, row);
  add_parts(location, parts);
}

void SampleIndexWriter::add_parts(const SampleLocation& location,
                                  std::span<const ScannedPart> parts) {
  const std::int64_t before = parts_;
  by_name_.clear();
  for (const ScannedPart& part : parts) {
    const std::int64_t row = ++parts_;
    by_name_.push_back(by_name_.size());
    trees_->parts.add_row(
        row, trees_->encode(location.tar_file_id, location.sample_index, std::string_view(part.name),
                            as_signed(part.content_offset), as_signed(part.size)));
    trees_->parts_by_place.add_key(trees_->encode(location.tar_file_id, location.sample_index,
                                                  as_signed(part.content_offset), row));
  }
  std::sort(by_name_.begin(), by_name_.end(),
            [&](std::size_t a, std::size_t b) { return parts[a].name < parts[b].name; });
  for (const std::size_t i : by_name_) {
    const ScannedPart& part = parts[i];
    trees_->parts_by_name.add_key(
        trees_->encode(location.tar_file_id, location.sample_index, std::string_view(part.name),
                       as_signed(part.content_offset), as_signed(part.size),
                       before + 1 + static_cast<std::int64_t>(i)));
  }
}

RepeatedKeys SampleIndexWriter::finish(std::size_t most_named) {
  RepeatedKeys repeated = add_keys(most_named);
  if (repeated.count == 0) {
    for (BtreeBuilder* const tree :
         {&trees_->samples, &trees_->samples_by_key, &trees_->samples_by_place, &trees_->parts,
          &trees_->parts_by_place, &trees_->parts_by_name}) {
      tree->finish();
    }
    trees_->file.finish();
  }
  trees_.reset();
  return repeated;
}

// Adds the sorted keys to their index.
RepeatedKeys SampleIndexWriter::add_keys(std::size_t most_named) {
  std::int64_t count = 0;
  std::map<std::int64_t, std::pair<std::string, std::int64_t>> named;  // by row
  std::string last_key;
  std::int64_t first_row = 0;  // of last_key; rows count from 1
  trees_->keys.visit_in_order([&](std::string_view key, std::int64_t row) {
    if (first_row != 0 && key == last_key) {
      ++count;
      named.emplace(row, std::pair(last_key, first_row));
      if (named.size() > most_named) {
        named.erase(std::prev(named.end()));
      }
      return;
    }
    last_key = key;
    first_row = row;
    trees_->samples_by_key.add_key(trees_->encode(key, row));
  });
  RepeatedKeys repeated{.count = count};
  for (auto& [row, other] : named) {
    repeated.named.push_back({.key = std::move(other.first),
                              .first = position_of(other.second),
                              .again = position_of(row)});
  }
  return repeated;
}

SamplePosition SampleIndexWriter::position_of(std::int64_t row) const {
  const auto behind = std::upper_bound(
      starts_.begin(), starts_.end(), row,
      [](std::int64_t wanted, const Start& start) { return wanted < start.row; });
  const Start& start = *std::prev(behind);
  return {.tar_file_id = start.position.tar_file_id,
          .sample_index = start.position.sample_index + row - start.row};
}

std::string make_uuid() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw io_error("cannot get random bytes", errno);
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);  // version 4
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);  // variant of RFC 4122
  std::string text;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", bytes[i]);
  }
  return text;
}

}  // namespace energon
