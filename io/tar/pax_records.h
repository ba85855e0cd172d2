// The records of a pax extended header: "<length> <key>=<value>\n", one after another.
//
// Strict: a length that is wrong by one would shift every record behind it, and so silently change
// names. The format is in POSIX.1-2001, pax, "pax Extended Header".

#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "io/bytes.h"

namespace energon {

/// Views the header's body.
struct PaxRecord {
  std::string_view key;
  std::string_view value;
  std::uint64_t offset = 0;  ///< of the record in the archive
};

class PaxRecords {
 public:
  /// `body` stands at `offset` of the archive and must outlive the records.
  PaxRecords(ByteView body, std::uint64_t offset) : rest_(as_text(body)), offset_(offset) {}

  /// Empty at the end. Throws Error (kCorruptData) with the record's offset.
  std::optional<PaxRecord> next();

 private:
  std::string_view rest_;
  std::uint64_t offset_;
};

/// The value of a "size" record: decimal, below 2^63. Throws Error (kCorruptData).
std::uint64_t parse_pax_size(const PaxRecord& record);

}  // namespace energon
