// Opens one split part of a prepared dataset. Private to io; open_split() calls it.

#pragma once

#include <string>

#include "io/dataset/dataset_folder.h"

namespace energon {

/// `path` is absolute and has a folder .nv-meta. Throws Error as open_split().
ShardSet open_prepared(const std::string& path, const OpenOptions& options);

}  // namespace energon
