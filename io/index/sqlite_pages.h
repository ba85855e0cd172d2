// Pages and rows of a SQLite file, written without SQLite
// (https://www.sqlite.org/fileformat2.html): rows are encoded as cells, and cells go into the pages
// of B-trees.
//
// SQLite looks up the place of each row and keeps every page available for the next one. Here rows
// arrive in order, so each page is filled, written once and dropped; memory is a few pages per
// level.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/file.h"

namespace energon {

// --- Rows ---
//
// Encodes rows as the cells of SQLite's B-trees.
//
// A cell is the size of the row, then in tables the row number, then the row: the size of its
// header, the type of each column, the values. Integers take as few bytes as possible.
// https://www.sqlite.org/fileformat2.html, "Record Format".

inline constexpr std::size_t kMaxVarintBytes = 9;

/// Writes `value` as SQLite's variable-length integer and returns the number of bytes.
std::size_t put_varint(std::byte* out, std::uint64_t value);

/// Size in bytes of the variable-length integer at `in`.
std::size_t varint_size(const std::byte* in);

/// Cells of one tree, one after another.
class EncodedCells {
 public:
  /// `number` is the encoded row number of a table, or empty for an index.
  void add(ByteView number, ByteView row);
  void clear();

  /// Calls `visit` with each cell, in order.
  template <class Visit>
  void for_each(const Visit& visit) const {
    std::size_t begin = 0;
    for (const std::uint32_t size : sizes_) {
      visit(ByteView(bytes_).subspan(begin, size));
      begin += size;
    }
  }

 private:
  std::vector<std::byte> bytes_;
  std::vector<std::uint32_t> sizes_;
};

/// Encodes one row at a time, column by column, and reuses its memory. Requires: at most
/// kMaxColumns columns.
class RowEncoder {
 public:
  static constexpr std::size_t kMaxColumns = 8;

  RowEncoder() : bytes_(kHeaderRoom + kFirstValueBytes) {}

  void add(std::int64_t value);
  void add(std::string_view text);

  /// Appends the row to `cells`, as a cell of a table or an index, and starts the next row.
  void finish_row(std::int64_t row_number, EncodedCells& cells);
  void finish_key(EncodedCells& cells);

 private:
  static constexpr std::size_t kHeaderRoom = 1 + kMaxColumns * kMaxVarintBytes;
  static constexpr std::size_t kFirstValueBytes = 256;

  void make_room(std::size_t bytes);
  ByteView take_row();

  std::vector<std::byte> bytes_;  // values begin at kHeaderRoom, where the header ends
  std::size_t values_end_ = kHeaderRoom;
  std::byte types_[kMaxColumns * kMaxVarintBytes] = {};
  std::size_t types_size_ = 0;
};

// --- Pages of a file ---
//
// Appends pages to a SQLite file whose tables are empty. Pages are numbered in the order of
// append(). The file is usable only after finish().

inline constexpr std::size_t kBtreePageBytes = 4096;

using Page = std::array<std::byte, kBtreePageBytes>;

/// Not thread-safe.
class BtreeFile {
 public:
  /// Opens a file that SQLite wrote and closed, made of whole pages. Throws Error (kIo).
  explicit BtreeFile(std::string path);

  /// The number that the next append() returns, and the number after that. Pages count from 1.
  std::uint32_t next_number() const { return number_after(page_count_); }
  std::uint32_t number_after_next() const { return number_after(next_number()); }

  /// Throws Error (kIo).
  std::uint32_t append(const Page& page);

  /// Replaces a page that was in the file when it was opened. Throws Error (kIo).
  void replace(std::uint32_t number, const Page& page);

  /// Records the number of pages and syncs the file. Throws Error (kIo).
  void finish();

 private:
  static std::uint32_t number_after(std::uint32_t number);
  void go_to(std::uint64_t offset);
  void flush();

  const std::string path_;
  UniqueFd fd_;
  std::uint32_t page_count_ = 0;
  std::vector<std::byte> pending_;  // the last pages, not yet written
};

// --- Trees ---
//
// A table is a tree of row numbers with the rows in its leaves; an index is a tree of keys, some of
// which are stored only in inner pages.

/// Not thread-safe.
class BtreeBuilder {
 public:
  enum class Kind : std::uint8_t { kTable, kIndex };

  /// `root` is the tree's page in `file`, which must outlive the builder.
  BtreeBuilder(BtreeFile& file, Kind kind, std::uint32_t root);
  ~BtreeBuilder();
  BtreeBuilder(const BtreeBuilder&) = delete;
  BtreeBuilder& operator=(const BtreeBuilder&) = delete;

  /// Adds a cell (RowEncoder). Table rows must have increasing numbers, index rows must be in
  /// SQLite's sort order. Throws Error (kIo).
  void add(ByteView cell);

  /// Writes the remaining pages, the root last. No cell can be added afterwards. Throws Error
  /// (kIo).
  void finish();

 private:
  struct Level;

  ByteView split_if_long(ByteView cell);
  std::uint32_t write_overflow(ByteView rest);
  void add_divider(std::size_t level, std::uint32_t child, ByteView cell);
  void write_full_page(std::size_t level);
  void finish_level(std::size_t level, std::uint32_t last_child);
  Level& level_at(std::size_t level);

  BtreeFile& file_;
  const Kind kind_;
  const std::uint32_t root_;
  std::vector<std::byte> short_cell_;           // the in-page part of a long row
  std::vector<std::unique_ptr<Level>> levels_;  // leaves first
};

}  // namespace energon
