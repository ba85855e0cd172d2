#include "io/index/sample_index_writer.h"

#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "io/error.h"
#include "io/file.h"
#include "io/index/key_sorter.h"
#include "io/index/media_table.h"
#include "io/index/sqlite_handle.h"
#include "io/index/sqlite_pages.h"

namespace energon {

// --- The rows of one shard ---

namespace {

std::int64_t as_signed(std::uint64_t value) { return static_cast<std::int64_t>(value); }

// The columns are those of the tables below; in an index, the row number follows its columns.
class ShardEncoder {
 public:
  ShardEncoder(std::int64_t tar_file_id, const RowCounts& before)
      : rows_{.tar_file_id = tar_file_id}, before_(before) {}

  void add(const ScannedSample& sample) {
    const std::int64_t number = rows_.counts.samples++;
    const std::int64_t row = before_.samples + rows_.counts.samples;  // SQLite counts from 1
    put(rows_.tar_file_id, std::string_view(sample.key), number, as_signed(sample.offset),
        as_signed(sample.size));
    encoder_.finish_row(row, rows_.samples);
    put(rows_.tar_file_id, number, row);
    encoder_.finish_key(rows_.samples_by_place);
    add_parts(number, sample.parts);
  }

  void add_keys(const std::vector<ScannedSample>& samples) {
    std::vector<std::uint32_t> order(samples.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    const auto is_before = [&](std::uint32_t a, std::uint32_t b) {
      return samples[a].key < samples[b].key;
    };
    if (!std::is_sorted(order.begin(), order.end(), is_before)) {
      std::sort(order.begin(), order.end(), is_before);
    }
    rows_.sorted_keys.reserve(order.size());
    for (const std::uint32_t i : order) {
      rows_.keys += samples[i].key;
      rows_.sorted_keys.push_back(
          {.size = static_cast<std::uint32_t>(samples[i].key.size()), .sample_index = i});
    }
  }

  SampleRows take() { return std::move(rows_); }

 private:
  template <class... Columns>
  void put(const Columns&... columns) {
    (encoder_.add(columns), ...);
  }

  void add_parts(std::int64_t sample, const std::vector<ScannedPart>& parts) {
    const std::int64_t first_row = before_.parts + rows_.counts.parts + 1;
    rows_.counts.parts += static_cast<std::int64_t>(parts.size());
    by_name_.clear();
    for (const ScannedPart& part : parts) {
      const std::int64_t row = first_row + static_cast<std::int64_t>(by_name_.size());
      by_name_.push_back(by_name_.size());
      put(rows_.tar_file_id, sample, std::string_view(part.name), as_signed(part.content_offset),
          as_signed(part.size));
      encoder_.finish_row(row, rows_.parts);
      put(rows_.tar_file_id, sample, as_signed(part.content_offset), row);
      encoder_.finish_key(rows_.parts_by_place);
    }
    std::sort(by_name_.begin(), by_name_.end(),
              [&](std::size_t a, std::size_t b) { return parts[a].name < parts[b].name; });
    for (const std::size_t i : by_name_) {
      const ScannedPart& part = parts[i];
      put(rows_.tar_file_id, sample, std::string_view(part.name), as_signed(part.content_offset),
          as_signed(part.size), first_row + static_cast<std::int64_t>(i));
      encoder_.finish_key(rows_.parts_by_name);
    }
  }

  SampleRows rows_;
  const RowCounts before_;
  RowEncoder encoder_;
  std::vector<std::size_t> by_name_;  // parts of a sample, sorted
};

}  // namespace

RowCounts count_rows(const ShardScan& scan) {
  RowCounts counts{.samples = static_cast<std::int64_t>(scan.samples.size())};
  for (const ScannedSample& sample : scan.samples) {
    counts.parts += static_cast<std::int64_t>(sample.parts.size());
  }
  return counts;
}

SampleRows encode_rows(const ShardScan& scan, std::int64_t tar_file_id, const RowCounts& before) {
  ShardEncoder encoder(tar_file_id, before);
  for (const ScannedSample& sample : scan.samples) {
    encoder.add(sample);
  }
  encoder.add_keys(scan.samples);
  return encoder.take();
}

// --- The schema ---
//
// The tables and indices of `index.sqlite`.

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

// The root page of each tree in the file.
struct IndexRoots {
  std::uint32_t samples = 0;
  std::uint32_t samples_by_key = 0;
  std::uint32_t samples_by_place = 0;
  std::uint32_t parts = 0;
  std::uint32_t parts_by_place = 0;
  std::uint32_t parts_by_name = 0;
};

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

// Creates `path`, which must not exist, with empty tables and indices. Throws Error (kIo).
IndexRoots create_index_schema(const std::string& path) {
  if (path_exists(path)) {
    throw Error(ErrorCode::kIo, "index database: file already exists", {.path = path});
  }
  // Without locks, which some file systems lack: no other process uses the file.
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

// --- The writer ---

// Finds repeated keys in a sorted sequence, with equal keys ordered by row.
class KeyRepeats {
 public:
  struct Named {
    std::string key;
    std::int64_t first_row = 0;
  };

  // At most `most_named` keys are listed: those with the smallest rows.
  explicit KeyRepeats(std::size_t most_named) : most_named_(most_named) {}

  bool is_new(std::string_view key, std::int64_t row) {
    if (first_row_ && key == last_key_) {
      ++count_;
      named_.emplace(row, Named{.key = last_key_, .first_row = *first_row_});
      if (named_.size() > most_named_) {
        named_.erase(std::prev(named_.end()));
      }
      return false;
    }
    last_key_ = key;
    first_row_ = row;
    return true;
  }

  std::int64_t count() const { return count_; }

  // Ordered by the row of the repetition.
  std::map<std::int64_t, Named> take_named() { return std::move(named_); }

 private:
  const std::size_t most_named_;
  std::int64_t count_ = 0;
  std::map<std::int64_t, Named> named_;
  std::string last_key_;
  std::optional<std::int64_t> first_row_;  // first row with last_key_
};

}  // namespace

struct SampleIndexWriter::Trees {
  Trees(const std::string& path, std::uint64_t sort_bytes)
      : Trees(path, create_index_schema(path), sort_bytes) {}

  Trees(const std::string& path, const IndexRoots& roots, std::uint64_t sort_bytes)
      : file(path),
        samples(file, BtreeBuilder::Kind::kTable, roots.samples),
        samples_by_key(file, BtreeBuilder::Kind::kIndex, roots.samples_by_key),
        samples_by_place(file, BtreeBuilder::Kind::kIndex, roots.samples_by_place),
        parts(file, BtreeBuilder::Kind::kTable, roots.parts),
        parts_by_place(file, BtreeBuilder::Kind::kIndex, roots.parts_by_place),
        parts_by_name(file, BtreeBuilder::Kind::kIndex, roots.parts_by_name),
        keys(path + ".keys", sort_bytes) {}

  BtreeFile file;
  BtreeBuilder samples;
  BtreeBuilder samples_by_key;
  BtreeBuilder samples_by_place;
  BtreeBuilder parts;
  BtreeBuilder parts_by_place;
  BtreeBuilder parts_by_name;
  KeySorter keys;
};

SampleIndexWriter::SampleIndexWriter(std::string path, std::uint64_t sort_bytes)
    : path_(std::move(path)), trees_(std::make_unique<Trees>(path_, sort_bytes)) {}

SampleIndexWriter::~SampleIndexWriter() = default;

void SampleIndexWriter::add(const SampleRows& rows) {
  const auto add_all = [](const EncodedCells& cells, BtreeBuilder& tree) {
    cells.for_each([&tree](ByteView cell) { tree.add(cell); });
  };
  add_all(rows.samples, trees_->samples);
  add_all(rows.samples_by_place, trees_->samples_by_place);
  add_all(rows.parts, trees_->parts);
  add_all(rows.parts_by_place, trees_->parts_by_place);
  add_all(rows.parts_by_name, trees_->parts_by_name);
  starts_.push_back({.row = samples_ + 1, .tar_file_id = rows.tar_file_id});
  std::string_view keys = rows.keys;
  for (const SortedKey& key : rows.sorted_keys) {
    trees_->keys.add(keys.substr(0, key.size), samples_ + 1 + key.sample_index);
    keys.remove_prefix(key.size);
  }
  samples_ += rows.counts.samples;
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

RepeatedKeys SampleIndexWriter::add_keys(std::size_t most_named) {
  KeyRepeats repeats(most_named);
  RowEncoder encoder;
  EncodedCells cell;
  trees_->keys.visit_in_order([&](std::string_view key, std::int64_t row) {
    if (repeats.is_new(key, row)) {
      encoder.add(key);
      encoder.add(row);
      cell.clear();
      encoder.finish_key(cell);
      cell.for_each([this](ByteView bytes) { trees_->samples_by_key.add(bytes); });
    }
  });
  RepeatedKeys repeated{.count = repeats.count()};
  for (auto& [row, other] : repeats.take_named()) {
    repeated.named.push_back({.key = std::move(other.key),
                              .first = position_of(other.first_row),
                              .again = position_of(row)});
  }
  return repeated;
}

SamplePosition SampleIndexWriter::position_of(std::int64_t row) const {
  const auto after =
      std::upper_bound(starts_.begin(), starts_.end(), row,
                       [](std::int64_t wanted, const Start& start) { return wanted < start.row; });
  const Start& start = *std::prev(after);
  return {.tar_file_id = start.tar_file_id, .sample_index = row - start.row};
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
