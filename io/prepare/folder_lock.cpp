#include "io/prepare/folder_lock.h"

#include <fcntl.h>

#include <cerrno>

#include <fmt/format.h>

#include "io/error.h"
#include "io/shared_folder.h"

namespace energon {

UniqueFd lock_folder(const std::string& path, std::string_view what) {
  UniqueFd lock(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!lock.valid()) {
    throw io_error("cannot open folder", errno, {.path = path});
  }
  if (try_lock(lock.get()) == Locked::kNo) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("another process prepares this {} at the moment", what),
                {.path = path});
  }
  return lock;
}

}  // namespace energon
