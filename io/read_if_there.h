// Reads a file that need not exist. Private to io.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/error.h"
#include "io/file_source.h"
#include "io/path_exists.h"

namespace energon {

/// As read_file(), but empty if path_exists() is false; fewer system calls than asking first.
inline std::optional<std::string> read_if_there(const std::string& path,
                                                std::uint64_t limit_bytes) {
  try {
    return read_file(path, limit_bytes);
  } catch (const Error&) {
    if (path_exists(path)) {
      throw;
    }
    return std::nullopt;
  }
}

}  // namespace energon
