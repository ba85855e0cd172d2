// Puts a file of a FileCache into a sample as lazy bytes.

#pragma once

#include <memory>

#include "energon/sample/sample.h"
#include "io/store/file_cache.h"

namespace energon {

/// Returns the bytes of `file`. The file stays in its cache as long as the result or a copy of it
/// is alive. Throws Error (kInvalidArgument) if `file` is null.
LazyBytes lazy_bytes(std::shared_ptr<const LazyFile> file);

}  // namespace energon
