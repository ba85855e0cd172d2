// What a metadataset refers to, for Python.

#pragma once

#include <nanobind/nanobind.h>

namespace energon::python {

void bind_recipe(nanobind::module_& module);

}  // namespace energon::python
