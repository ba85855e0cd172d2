// Files in the folder of a file cache. Private to io.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/bytes.h"

namespace energon {

/// Writes a new file; false if it could not be written. Does not sync: nobody reads the file after
/// a crash.
bool write_cached(const std::string& path, ByteView content) noexcept;

/// The bytes of the file; nothing if it is not as it was written, because somebody cleaned the
/// folder of temporary files.
std::optional<SharedBytes> read_cached(const std::string& path, std::uint64_t size_bytes);

}  // namespace energon
