// The Python class LoaderState: SavableDataLoaderState.

#pragma once

#include <nanobind/nanobind.h>

#include "energon/checkpoint/loader_state.h"

namespace energon::python {

void bind_state(nanobind::module_& module);

}  // namespace energon::python
