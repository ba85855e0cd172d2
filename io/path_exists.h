// Whether something is at a path. Private to io.

#pragma once

#include <cerrno>
#include <filesystem>
#include <string>
#include <system_error>

#include "io/error.h"

namespace energon {

/// False also for what cannot be asked for, such as a brace pattern longer than a path may be;
/// opening then says why. Throws Error (kIo) if the disk or server does not answer, or a folder may
/// not be searched: what it has may well be there.
inline bool path_exists(const std::string& path) {
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
