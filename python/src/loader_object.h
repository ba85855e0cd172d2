// The native half of the Python classes SavableDataLoader and BasicDataLoader.

#pragma once

#include <nanobind/nanobind.h>

#include "energon/worker/loader_options.h"

namespace energon::python {

/// Reads LoaderOptions from the dict `options` and adds the hooks of the interpreter. Throws
/// TypeError.
LoaderOptions read_loader_options(const nanobind::dict& options);

}  // namespace energon::python
