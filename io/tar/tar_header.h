// Strict parsing of the headers of a tar: one 512-byte block, and the records of a pax extended
// header.
//
// A block is a header only if its checksum and magic are correct and its numbers are well formed: a
// reader that guesses turns a flipped bit into a missing part. Headers follow POSIX.1-1988 ustar,
// its GNU variant, or v7 (https://www.gnu.org/software/tar/manual/html_node/Standard.html); records
// follow POSIX.1-2001, pax, "pax Extended Header".

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/bytes.h"
#include "io/error.h"

namespace energon {

inline constexpr std::size_t kTarBlockBytes = 512;

using TarBlock = std::span<const std::byte, kTarBlockBytes>;

enum class TarFormat : std::uint8_t { kV7, kUstar, kGnu };

/// Name and prefix are views into the block.
struct TarHeader {
  std::string_view name;
  std::string_view prefix;  ///< the full name is prefix/name; only in ustar
  std::uint64_t size = 0;   ///< at most 2^63 - 1
  char type_flag = '\0';
  TarFormat format = TarFormat::kV7;
};

bool is_zero_block(TarBlock block);

/// True if the stored checksum equals the unsigned sum of the block or its signed sum, which old
/// writers computed. Checks nothing else.
bool has_valid_checksum(TarBlock block);

/// Parses the block at byte `offset` of the archive. Throws Error (kCorruptData) with `offset` and
/// the field that is wrong.
TarHeader parse_tar_header(TarBlock block, std::uint64_t offset);

/// The header if it is plain, else nullopt. Plain means a regular file or folder in ustar or GNU
/// format, with an ASCII name field, full-width octal numbers, and nothing in fields that only some
/// readers know. All readers interpret such a header alike, and parse_tar_header() returns the same
/// result.
std::optional<TarHeader> parse_plain_header(TarBlock block);

/// An Error (kCorruptData) at byte `offset` of the archive.
Error corrupt_tar(std::uint64_t offset, std::string reason);

/// `size` rounded up to whole blocks. Requires: size < 2^63.
constexpr std::uint64_t padded_to_blocks(std::uint64_t size) {
  return (size + kTarBlockBytes - 1) / kTarBlockBytes * kTarBlockBytes;
}

// --- Pax records ---
//
// The records of a pax extended header are "<length> <key>=<value>\n", one after another. A length
// that is off by one would shift every later record and silently change names, so it is an error.

/// Key and value are views into the header's body.
struct PaxRecord {
  std::string_view key;
  std::string_view value;
  std::uint64_t offset = 0;  ///< start of the record in the archive
};

class PaxRecords {
 public:
  /// `body` starts at `offset` of the archive and must outlive the records.
  PaxRecords(ByteView body, std::uint64_t offset) : rest_(as_text(body)), offset_(offset) {}

  /// The next record, or nullopt at the end. Throws Error (kCorruptData) with the record's offset.
  std::optional<PaxRecord> next();

 private:
  std::string_view rest_;
  std::uint64_t offset_;
};

/// The value of a "size" record: decimal, below 2^63. Throws Error (kCorruptData).
std::uint64_t parse_pax_size(const PaxRecord& record);

}  // namespace energon
