// Decoded values as HTML: a tree that folds.

#pragma once

#include <string>

#include "energon/sample/sample.h"

namespace energon::cli {

/// Lists and mappings fold; long strings and lists are cut, with a note. Tensors show dtype, shape,
/// a few statistics and, if they are small, their elements.
std::string value_html(const Value& value);

}  // namespace energon::cli
