// Builds one B-tree of a SQLite file from rows that come in order. Private to io.
//
// SQLite finds the place of each row anew and keeps every page ready for the next one. Here the
// order is known, so each page is filled, written once and forgotten: the memory is a few pages per
// level. A table is a tree of row numbers with the rows in its leaves; an index is a tree of keys,
// some of which are in inner pages only. https://www.sqlite.org/fileformat2.html, "B-tree Pages".

#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "io/bytes.h"
#include "io/index/btree_file.h"

namespace energon {

/// Not thread-safe.
class BtreeBuilder {
 public:
  enum class Kind : std::uint8_t { kTable, kIndex };

  /// `root` is the tree's page in `file`, which must outlive the builder.
  BtreeBuilder(BtreeFile& file, Kind kind, std::uint32_t root);
  ~BtreeBuilder();
  BtreeBuilder(const BtreeBuilder&) = delete;
  BtreeBuilder& operator=(const BtreeBuilder&) = delete;

  /// Adds a cell (row_encoder.h): of a table, with a number larger than the one before; of an
  /// index, with a row behind the one before, as SQLite compares them. Throws Error (kIo).
  void add(ByteView cell);

  /// Writes the pages that are left, at last the root. Nothing can be added afterwards. Throws
  /// Error (kIo).
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
  std::vector<std::byte> short_cell_;           // what stays in the page of a long one
  std::vector<std::unique_ptr<Level>> levels_;  // the leaves first
};

}  // namespace energon
