// Skips test cases that cannot run here because data or a permission is missing.
//
//   if (!data) { return skip_case("the shared data is missing"); }
//
// Catch2 version 2 only has passed and failed cases. A program in which all cases were skipped
// exits with kSkipExitCode, which ctest shows as "Skipped". A program that also ran other cases
// lists the skipped ones at its end.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace energon::testing {

/// Must equal SKIP_RETURN_CODE in tests/CMakeLists.txt.
inline constexpr int kSkipExitCode = 77;

/// Marks the running test case as skipped and prints the reason; the case should then return. A
/// case that failed before, or fails afterwards, counts as failed. Call it only in the test's own
/// process, not in a forked child.
void skip_case(std::string_view reason);

/// Names and reasons of the cases skipped so far.
const std::vector<std::string>& skipped_cases();

}  // namespace energon::testing
