// Samples by their keys: what is stored, when a saved job delivered it, what a step delivered.

#pragma once

#include <nanobind/nanobind.h>

namespace energon::python {

void bind_lookup(nanobind::module_& module);

}  // namespace energon::python
