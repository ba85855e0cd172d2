// A folder of temporary files that is removed with its process or, if the process was killed, by
// another process later. Private to io.
//
// The folder is `energon-cache-<random digits>`, accessible to its owner only. It holds a file
// `lock` that is locked while the process lives. A process that creates such a folder removes those
// beside it that no process holds; on a file system without locks, those unchanged for
// kAbandonedAfter (io/shared_folder.h).

#pragma once

#include <string>

#include "io/concurrency.h"
#include "io/file.h"

namespace energon {

class CacheFolder {
 public:
  /// Creates `parent_folder` if it does not exist. Throws Error (kIo, kNotFound).
  explicit CacheFolder(const std::string& parent_folder);
  /// Removes the folder, unless in a forked child.
  ~CacheFolder();
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;

  /// The absolute path of the folder.
  const std::string& path() const { return path_; }

 private:
  const OwnerProcess owner_;
  std::string path_;
  UniqueFd lock_;
};

}  // namespace energon
