// The records of a pax extended header: "<length> <key>=<value>\n", one after another.
//
// Parsing is strict: a length that is off by one would shift every later record and silently change
// names. POSIX.1-2001, pax, "pax Extended Header", defines the format.

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/bytes.h"

namespace energon {

/// Key and value are views into the header's body.
struct PaxRecord {
  std::string_view key;
  std::string_view value;
  std::uint64_t offset = 0;  ///< of the record in the archive
};

class PaxRecords {
 public:
  /// `body` starts at `offset` of the archive and must outlive the records.
  PaxRecords(ByteView body, std::uint64_t offset) : rest_(as_text(body)), offset_(offset) {}

  /// The next record; empty at the end. Throws Error (kCorruptData) with the record's offset.
  std::optional<PaxRecord> next();

 private:
  std::string_view rest_;
  std::uint64_t offset_;
};

/// The value of a "size" record: decimal, below 2^63. Throws Error (kCorruptData).
std::uint64_t parse_pax_size(const PaxRecord& record);

}  // namespace energon
