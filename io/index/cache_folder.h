// A folder of temporary files that goes with its process, even with one that is killed. Private to
// io.
//
// The folder is `energon-cache-<random digits>`, for its owner only, and holds a file `lock` that
// is locked as long as the process lives. Whoever makes such a folder removes those beside it that
// nobody holds; on a file system without locks, those in which nothing has changed for
// kAbandonedAfter (io/shared_folder.h).

#pragma once

#include <sys/types.h>

#include <string>

#include "io/unique_fd.h"

namespace energon {

class CacheFolder {
 public:
  /// Makes `parent_folder` if it is not there. Throws Error (kIo, kNotFound).
  explicit CacheFolder(const std::string& parent_folder);
  /// Removes the folder, unless in a forked child.
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  /// Absolute.
  const std::string& path() const { return path_; }

 private:
  const pid_t owner_;
  std::string path_;
  UniqueFd lock_;
};

}  // namespace energon
