// The members of a zip file (PKWARE's APPNOTE), through libarchive.
//
// Read by the central directory, so that a truncated file is an error and not a shorter zip.

#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/byte_cursor.h"
#include "io/bytes.h"

namespace energon {

struct ZipMember {
  std::string name;  ///< UTF-8
  std::vector<std::byte> content;
};

/// All files of the zip, in the order of their bytes, expanded and with their checksums compared.
/// Folders are left out. Memory is taken for bytes that are there, not for sizes that are claimed.
///
/// Thread-safe. Throws Error: kCorruptData for a damaged zip, a wrong checksum, and a name that
/// comes twice or is not UTF-8; kUnsupported for encrypted members, links, and compression other
/// than deflate; kResourceExhausted if all members together are above `limit`.
std::vector<ZipMember> read_zip(ByteView encoded, const MemoryLimit& limit);

}  // namespace energon
