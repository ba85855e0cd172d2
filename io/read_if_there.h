// Reads a file that need not exist. Private to io.

#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

#include "io/error.h"
#include "io/file_source.h"
#include "io/path_exists.h"

namespace energon {

/// As read_file(), but empty if there is nothing at `path`, not even a link that leads nowhere;
/// fewer system calls than asking first.
inline std::optional<std::string> read_if_there(const std::string& path,
                                                std::uint64_t limit_bytes) {
  try {
    return read_file(path, limit_bytes);
  } catch (const Error&) {
    std::error_code is_unknown;
    if (path_exists(path) || std::filesystem::is_symlink(path, is_unknown)) {
      throw;
    }
    return std::nullopt;
  }
}

}  // namespace energon
