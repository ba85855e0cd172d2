// Files under tests/golden, written by some version of the library, to check that later versions
// still read them.
//
// Each set is a folder. The newest set contains what the current version writes, byte for byte.
// Others come from earlier versions and are never rewritten. With ENERGON_RENEW_GOLDEN in the
// environment the tests rewrite the newest set: ENERGON_RENEW_GOLDEN=1 ctest -R golden.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace energon::testing {

/// The sets, oldest first.
const std::vector<std::string>& golden_sets();
inline std::string newest_golden_set() { return golden_sets().back(); }

/// Path of the file `name` in `set`, and its content.
std::string golden_path(const std::string& set, const std::string& name);
std::string read_golden(const std::string& set, const std::string& name);

/// Checks that the file `name` of the newest set has this `content`; with ENERGON_RENEW_GOLDEN,
/// writes the file instead.
void check_golden(const std::string& name, std::string_view content);
/// The same for text with these lines.
void check_golden(const std::string& name, const std::vector<std::string>& lines);
/// The lines of a file in any set.
std::vector<std::string> golden_lines(const std::string& set, const std::string& name);

}  // namespace energon::testing
