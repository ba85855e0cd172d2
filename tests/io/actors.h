// Runs shared_actor, several at once, under the library shared_faults.

#pragma once

#include <string>
#include <vector>

#include "tests/support/child_runner.h"

namespace energon::testing {

using Words = std::vector<std::string>;

/// Starts one process for each element of `actors` (verb and arguments), lets all start at the same
/// moment and waits for them. `environment` is a list of "NAME=value" for all processes.
std::vector<ChildResult> run_actors(const std::vector<Words>& actors, const Words& environment);

}  // namespace energon::testing
