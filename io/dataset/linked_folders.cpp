#include "io/dataset/linked_folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {

bool LinkedFolders::enter(const std::string& folder, bool is_below_link) {
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) {
    throw io_error("cannot list folder", errno, {.path = folder});
  }
  const std::pair<dev_t, ino_t> identity(status.st_dev, status.st_ino);
  if (std::find(open_.begin(), open_.end(), identity) != open_.end()) {
    return false;
  }
  // Folders with links to each other are entered once for each order of them.
  constexpr std::int64_t kMostBelowLinks = 100'000;
  if (is_below_link && ++below_links_ > kMostBelowLinks) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("links to folders lead to more than {} folders, the same ones again "
                            "and again perhaps: remove links between folders, or name a folder "
                            "without them",
                            kMostBelowLinks),
                {.path = folder});
  }
  open_.push_back(identity);
  return true;
}

}  // namespace energon
