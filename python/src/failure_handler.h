// A Python function that hears of the failures of native stages.

#pragma once

#include <nanobind/nanobind.h>

#include "energon/stage/failure.h"

namespace energon::python {

/// Calls `function(code, text, path, keys, sources)` for each failure that no Python function
/// caused, and leaves the samples out. What the function raises ends the stream. Borrows it.
FailureHandler failure_handler(nanobind::handle function);

}  // namespace energon::python
