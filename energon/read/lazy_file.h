// A file of a FileCache as a field of a sample.

#pragma once

#include <memory>

#include "energon/sample/lazy_bytes.h"
#include "io/store/file_cache.h"

namespace energon {

/// The bytes of `file`, which stays in its cache as long as they, or a copy of them, are there.
/// Throws Error (kInvalidArgument) without a file.
LazyBytes lazy_bytes(std::shared_ptr<const LazyFile> file);

}  // namespace energon
