// How the program batches samples whose parts it does not know.

#pragma once

#include <span>

#include "energon/sample/sample.h"

namespace energon::cli {

/// As list_fields(), but a sample may lack a part that another one has: an empty list stands in its
/// place.
Mapping list_parts(std::span<Sample> samples);

}  // namespace energon::cli
