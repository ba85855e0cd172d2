// Encodes rows as the cells of SQLite's B-trees. Private to io.
//
// A cell is the size of the row, in tables its number, then the row: the size of its header, the
// type of each column, the values. Integers take as few bytes as they need.
// https://www.sqlite.org/fileformat2.html, "Record Format".

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace energon {

inline constexpr std::size_t kMaxVarintBytes = 9;

/// Writes `value` as SQLite's variable-length integer and returns the number of bytes.
std::size_t put_varint(std::byte* out, std::uint64_t value);

/// The bytes of the integer that begins at `in`.
std::size_t varint_size(const std::byte* in);

/// The integer at `position` of `bytes`; moves `position` behind it. Empty if the bytes end before.
std::optional<std::uint64_t> take_varint(ByteView bytes, std::size_t& position);

/// Cells of one tree, one after another.
class EncodedCells {
 public:
  /// `number` is that of a table's row, encoded; empty in an index.
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

  /// Appends the row as a cell of a table, or of an index, to `cells`, and begins the next row.
  void finish_row(std::int64_t row_number, EncodedCells& cells);
  void finish_key(EncodedCells& cells);

 private:
  static constexpr std::size_t kHeaderRoom = 1 + kMaxColumns * kMaxVarintBytes;
  static constexpr std::size_t kFirstValueBytes = 256;

  void make_room(std::size_t bytes);
  ByteView take_row();

  std::vector<std::byte> bytes_;  // the values begin at kHeaderRoom, the header ends there
  std::size_t values_end_ = kHeaderRoom;
  std::byte types_[kMaxColumns * kMaxVarintBytes] = {};
  std::size_t types_size_ = 0;
};

/// The columns of an index over one text: the text and the number of the table's row.
struct TextAndNumber {
  std::string_view text;
  std::int64_t number = 0;
};

/// Decodes a cell of such an index; empty if it has other columns. The text is a view into the
/// cell.
std::optional<TextAndNumber> decode_key(ByteView cell);

}  // namespace energon
