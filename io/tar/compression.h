// Detects the compression of a shard from its name and its first bytes.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "io/bytes.h"
#include "io/file_source.h"

namespace energon {

enum class Compression : std::uint8_t { kNone, kGzip, kZstd };

/// "none", "gzip" or "zstd".
std::string_view to_string(Compression compression);

/// By the end of the name: ".tgz" and ".tar.gz", ".tar.zst"; everything else is not compressed.
Compression compression_of_name(std::string_view path);

/// By the first four bytes of a file (fewer if it is shorter).
Compression compression_of_magic(ByteView first_bytes);

/// By both. Throws Error (kCorruptData) if they disagree, so that a file with the wrong name or
/// content is never read as something else.
Compression compression_of(const FileSource& file);

/// A sentence for error messages about a file that should be a tar or compressed tar: its first
/// bytes, and a hint for common cases such as an error page.
std::string describe_first_bytes(ByteView first_bytes);

}  // namespace energon
