// Detects test cases that fork without the tag [fork]. The tsan preset would run them, although
// ThreadSanitizer does not follow a fork.

#pragma once

#include <string>
#include <vector>

namespace energon::testing {

/// Starts watching. Call it before the first test case.
void watch_forks();

/// Names of cases without the tag in which this process called fork().
const std::vector<std::string>& untagged_forks();

/// Whether the running case has the tag [fork]. Programs started by a case without the tag may not
/// fork either (tests/cli/energon_program.cpp prevents it).
bool may_fork();

}  // namespace energon::testing
