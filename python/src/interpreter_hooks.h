// What the interpreter needs around the forks of a loader, and while a loader waits.

#pragma once

#include <functional>

#include "energon/process/fork_hooks.h"

namespace energon::python {

/// CPython's fork hooks. In the fork server, memory is frozen for the collector. In a worker, its
/// output is set up and the main thread gives the GIL up, so that stages of the core run without.
ForkHooks interpreter_fork_hooks();

/// Runs the handlers of pending signals. Throws nb::python_error for what they raise, such as
/// KeyboardInterrupt. Takes the GIL.
std::function<void()> signal_check();

}  // namespace energon::python
