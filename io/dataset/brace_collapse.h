// Collapses many shard names into few patterns: the inverse of io/dataset/brace_expansion.h.

#pragma once

#include <span>
#include <string>
#include <vector>

namespace energon {

/// Patterns for `names`, in order. Neighbours that differ only in one number, which grows by one
/// and keeps its count of digits, become one pattern ("d-0" … "d-11" give "d-{0..9}",
/// "d-{10..11}"). Expanding the result gives `names` again: special characters are escaped.
std::vector<std::string> collapse_names(std::span<const std::string> names);

}  // namespace energon
