// Whether a path exists. Private to io.

#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "io/error.h"
#include "io/file_source.h"

namespace energon {

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
