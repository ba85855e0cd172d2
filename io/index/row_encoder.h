// Encodes one row as a record of SQLite. Private to io.
//
// A record is the size of its header, the type of each column, then the values; integers take as
// few bytes as they need. https://www.sqlite.org/fileformat2.html, "Record Format".

#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace energon {

/// Appends `value` as SQLite's variable-length integer to `out` and returns the bytes written: at
/// most kMaxVarintBytes.
std::size_t put_varint(std::byte* out, std::uint64_t value);
inline constexpr std::size_t kMaxVarintBytes = 9;

/// Reuses its memory from row to row. Requires: at most kMaxColumns columns.
class RowEncoder {
 public:
  static constexpr std::size_t kMaxColumns = 8;

  RowEncoder() : bytes_(kHeaderRoom + kFirstValueBytes) {}

  /// Begins a row.
  void clear() {
    values_end_ = kHeaderRoom;
    types_size_ = 0;
  }
  void add(std::int64_t value);
  void add(std::string_view text);

  /// The row; valid until the next clear().
  ByteView row();

 private:
  static constexpr std::size_t kHeaderRoom = 1 + kMaxColumns * kMaxVarintBytes;
  static constexpr std::size_t kFirstValueBytes = 256;

  void make_room(std::size_t bytes);

  std::vector<std::byte> bytes_;  // the values begin at kHeaderRoom, the header ends there
  std::size_t values_end_ = kHeaderRoom;
  std::byte types_[kMaxColumns * kMaxVarintBytes] = {};
  std::size_t types_size_ = 0;
};

}  // namespace energon
