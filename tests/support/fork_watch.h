// Notices test cases that fork and are not tagged [fork]: the tsan preset would run them, although
// ThreadSanitizer does not follow a fork.

#pragma once

#include <string>
#include <vector>

namespace energon::testing {

/// Begins to watch; before the first test case.
void watch_forks();

/// Cases without the tag in which this process called fork().
const std::vector<std::string>& untagged_forks();

/// Whether the running case has the tag [fork]. Programs that a case without it starts may not fork
/// either (tests/cli/energon_program.cpp takes the permission from them).
bool may_fork();

}  // namespace energon::testing
