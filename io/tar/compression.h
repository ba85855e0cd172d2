// How a shard is compressed, told by its name and by its first bytes.

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

/// By both. Throws Error (kCorruptData) if they disagree: a shard with the wrong name or a wrong
/// content must not be read as something else.
Compression compression_of(const FileSource& file);

/// What a file that should be a tar (or compressed tar) seems to be instead, as a sentence for an
/// error message: its first bytes, and a hint for what is often found, such as an error page.
std::string describe_first_bytes(ByteView first_bytes);

}  // namespace energon
