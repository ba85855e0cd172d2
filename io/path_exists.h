// Whether a path exists, and whether it can. Private to io.

#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "io/error.h"

namespace energon {

/// Throws Error (kInvalidArgument) for a path with a NUL byte, at which the system would cut it.
inline void check_path(const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument, "a path cannot contain a NUL byte", {.path = path});
  }
}

/// Also false for a path that cannot exist, such as a brace pattern longer than a path may be;
/// opening it then reports why. Throws Error (kIo) if the answer is unknown: the disk or server
/// does not answer, or a folder may not be searched.
inline bool path_exists(const std::string& path) {
  check_path(path);
  std::error_code code;
  const bool exists = std::filesystem::exists(path, code);
  for (const int error : {EACCES, EIO, ESTALE, ENOMEM, ENFILE, EMFILE, ETIMEDOUT, EAGAIN, EINTR}) {
    if (code.value() == error) {
      throw io_error("cannot look for file", error, {.path = path});
    }
  }
  return exists;
}

}  // namespace energon
