// The lock under which a folder is prepared. Private to io.

#pragma once

#include <string>
#include <string_view>

#include "io/file.h"

namespace energon {

/// Takes the advisory lock of the folder `path`, which closing the descriptor releases. Where locks
/// do not work, another process may hold it, too (io/shared_folder.h). `what` is prepared:
/// "folder", "metadataset". Throws Error: kInvalidArgument if another process has the lock;
/// kNotFound, kIo.
UniqueFd lock_folder(const std::string& path, std::string_view what);

}  // namespace energon
