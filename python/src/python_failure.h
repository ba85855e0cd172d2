// Converts exceptions of Python functions to errors of the core, and errors to exceptions.

#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "energon/stage/failure.h"
#include "io/error.h"
#include "python/src/interpreter.h"

namespace energon::python {

/// Converts `raised`, the exception of a user function, to an error of the pipeline and throws it:
/// SkipSample; FatalSampleError for exceptions that no policy may skip (KeyboardInterrupt,
/// SystemExit and others that are not an Exception; FatalSampleError; mistakes such as
/// ImportError); else Error. Its message contains the type and text of the exception, its detail
/// the exception itself. Requires: the GIL.
[[noreturn]] void throw_failure(nanobind::python_error& raised);

/// If an exception such as KeyboardInterrupt has interrupted a function in this thread since the
/// last call, raises it again: sets the error indicator and returns true. sys.exit() in the
/// function itself is an error of the function, not an interrupt. Requires: the GIL.
bool raise_interrupt();
void forget_interrupt();

/// Converts errors of the core that leave functions of the module to exceptions of the package.
void register_errors();

/// Returns `function()`, called with the GIL. Converts its exceptions with throw_failure().
template <class Function>
auto call_python(Function&& function) {
  const HoldGil gil;
  try {
    return std::forward<Function>(function)();
  } catch (nanobind::python_error& raised) {
    throw_failure(raised);
  } catch (const nanobind::cast_error&) {
    throw Error(ErrorCode::kUserFunction, "a Python function returned a value of the wrong type");
  }
}

/// A handler of the failures of native stages: calls `function(code, text, path, keys, sources)`
/// for each failure that no Python function caused, and leaves the samples out. An exception of
/// `function` ends the stream. Borrows `function`.
FailureHandler failure_handler(nanobind::handle function);

}  // namespace energon::python
