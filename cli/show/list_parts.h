// Batches samples whose parts are not known in advance.

#pragma once

#include <span>

#include "energon/sample/sample.h"

namespace energon::cli {

/// Like list_fields(), but a sample may lack a part that another one has; an empty list takes its
/// place.
Mapping list_parts(std::span<Sample> samples);

}  // namespace energon::cli
