// Short lists of many shard names: the inverse of io/dataset/brace_expansion.h.

#pragma once

#include <span>
#include <string>
#include <vector>

namespace energon {

/// A list of patterns for `names`, in order: neighbours that differ in one number that
/// grows by one with the same count of digits become one pattern ("d-0" … "d-11" give "d-{0..9}",
/// "d-{10..11}"). Expanding the result gives `names` again: characters with a meaning are escaped.
std::vector<std::string> collapse_names(std::span<const std::string> names);

}  // namespace energon
