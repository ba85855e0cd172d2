// Exceptions of Python functions, made into errors of the core, and errors into exceptions.

#pragma once

#include <nanobind/nanobind.h>

#include <utility>

#include "energon/stage/failure.h"
#include "io/error.h"
#include "python/src/interpreter.h"

namespace energon::python {

/// Throws what `raised`, the exception of a function of the user, is for a pipeline: SkipSample;
/// FatalSampleError for what no policy may skip (KeyboardInterrupt, SystemExit and others that are
/// not an Exception; FatalSampleError; mistakes such as ImportError); else Error. The text has type
/// and text of the exception, the detail the exception itself. Requires: the GIL.
[[noreturn]] void throw_failure(nanobind::python_error& raised);

/// Raises again what interrupted a function in this thread since the last call, such as
/// KeyboardInterrupt: sets the error indicator and returns true. sys.exit() of the function itself
/// is an error of the function, not an interrupt. Requires: the GIL.
bool raise_interrupt();
void forget_interrupt();

/// Exceptions of the core leave functions of the module as exceptions of the package.
void register_errors();

/// Returns `function()`, called with the GIL. Its exceptions leave by throw_failure().
template <class Function>
auto call_python(Function&& function) {
  const HoldGil gil;
  try {
    return std::forward<Function>(function)();
  } catch (nanobind::python_error& raised) {
    throw_failure(raised);
  } catch (const nanobind::cast_error&) {
    throw Error(ErrorCode::kUserFunction, "a Python function returned a value of a wrong type");
  }
}

/// A handler of the failures of native stages: calls `function(code, text, path, keys, sources)`
/// for each failure that no Python function caused, and leaves the samples out. What the function
/// raises ends the stream. Borrows it.
FailureHandler failure_handler(nanobind::handle function);

}  // namespace energon::python
