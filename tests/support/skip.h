// A test case that cannot run here, because its data or a permission is not there, says so.
//
//   if (!data) { return skip_case("the shared data is not there"); }
//
// Catch2 2 knows passed and failed only. A program that ran nothing but skipped cases exits with
// kSkipExitCode, which ctest shows as "Skipped"; one that ran others, too, names the skipped ones
// at its end.

#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace energon::testing {

/// Also what tests/CMakeLists.txt gives to ctest as SKIP_RETURN_CODE.
inline constexpr int kSkipExitCode = 77;

/// Marks the running test case as skipped and prints the reason; the case then returns. One that
/// failed before or fails afterwards is failed. To be called by the process of the test itself, not
/// by a forked child.
void skip_case(std::string_view reason);

/// Names and reasons of the cases that were skipped so far.
const std::vector<std::string>& skipped_cases();

}  // namespace energon::testing
