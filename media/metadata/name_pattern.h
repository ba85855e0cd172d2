// Patterns of names, as Python's fnmatch and Energon have them.
//
//   *        any characters, also none, also dots and slashes
//   ?        one character
//   [a-z_]   one of these
//   [!a-z]   one that is none of these
//
// A bracket that is not closed stands for itself. Letter case counts.

#pragma once

#include <string_view>

namespace energon {

/// Whether all of `name` fits. Both are UTF-8; a byte that is not counts as one character. Takes
/// time of the product of the lengths at most. Thread-safe.
bool fits_pattern(std::string_view name, std::string_view pattern);

}  // namespace energon
