// Keys of the samples that a job delivered.

#pragma once

#include <set>
#include <string>
#include <vector>

namespace energon::testing {

using Keys = std::vector<std::string>;

inline std::set<std::string> distinct(const Keys& keys) { return {keys.begin(), keys.end()}; }

inline Keys both(Keys first, const Keys& second) {
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

}  // namespace energon::testing
