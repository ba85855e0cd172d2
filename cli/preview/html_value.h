// Decoded values as HTML: a tree that folds.

#pragma once

#include <string>

#include "energon/sample/sample.h"

namespace energon::cli {

/// Lists and mappings fold; texts and long lists are cut, and the page says so. Tensors show dtype,
/// shape, a few statistics and, if they are small, their elements.
std::string value_html(const Value& value);

}  // namespace energon::cli
