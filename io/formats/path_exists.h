// Whether something is at a path. Private to io/formats.

#pragma once

#include <filesystem>
#include <string>
#include <system_error>

namespace energon {

/// False also for what cannot be asked for, such as a brace pattern longer than a path may be;
/// opening then says why.
inline bool path_exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

}  // namespace energon
