// Whether a path can exist, and does. Not installed.

#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

/// Throws Error (kInvalidArgument) if `path` contains a NUL byte: the system would take what is
/// before it for the path.
inline void check_path(std::string_view path) {
  if (const std::size_t nul = path.find('\0'); nul != std::string_view::npos) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("the path contains a NUL byte after {} bytes, and no file name may", nul),
        {.path = std::string(path)});
  }
}

/// Also false for a path that cannot exist, such as a brace pattern longer than a path may be;
/// opening it then reports why. Throws Error: kInvalidArgument of check_path(); kIo if the answer
/// is unknown: the disk or server does not answer, a folder may not be searched, or a link leads to
/// itself.
inline bool path_exists(const std::string& path) {
  check_path(path);
  std::error_code code;
  const bool exists = std::filesystem::exists(path, code);
  for (const int error :
       {EACCES, EIO, ESTALE, ENOMEM, ENFILE, EMFILE, ETIMEDOUT, EAGAIN, EINTR, ELOOP}) {
    if (code.value() == error) {
      throw io_error("cannot look for file", error, {.path = path});
    }
  }
  return exists;
}

}  // namespace energon
