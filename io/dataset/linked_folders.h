// Keeps a walk that follows links to folders from going on for ever. Private to io.

#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace energon {

/// The folders that a walk is in, from the first one to the one that it lists. Not thread-safe.
class LinkedFolders {
 public:
  /// Begins with `folder`; false, and leave() must not be called, if the walk is in it already,
  /// because a link leads back. `is_below_link`: the path from where the walk began has a link in
  /// it. Throws Error: kNotFound, kIo; kInvalidArgument for more than 100,000 folders below links.
  bool enter(const std::string& folder, bool is_below_link);

  /// Ends with the folder that was entered last.
  void leave() { open_.pop_back(); }

 private:
  std::int64_t below_links_ = 0;
  std::vector<std::pair<dev_t, ino_t>> open_;
};

}  // namespace energon
