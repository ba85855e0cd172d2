// Files under tests/golden: what a program of some day wrote, kept so that later ones read it.
//
// Each set is a folder. The newest set is what this program writes, byte for byte; the others were
// written by earlier ones and are never written again. With ENERGON_RENEW_GOLDEN in the environment
// the tests write the newest set anew: ENERGON_RENEW_GOLDEN=1 ctest -R golden.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace energon::testing {

/// The sets, oldest first.
const std::vector<std::string>& golden_sets();
inline std::string newest_golden_set() { return golden_sets().back(); }

/// The file `name` of `set`.
std::string golden_path(const std::string& set, const std::string& name);
std::string read_golden(const std::string& set, const std::string& name);

/// Checks that `content` is the file `name` of the newest set, or writes it.
void check_golden(const std::string& name, std::string_view content);
/// The same, one line each.
void check_golden(const std::string& name, const std::vector<std::string>& lines);
/// Lines of a file of any set.
std::vector<std::string> golden_lines(const std::string& set, const std::string& name);

}  // namespace energon::testing
