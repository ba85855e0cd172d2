// States of megatron-energon's loaders, made into states of ours.

#pragma once

#include <nanobind/nanobind.h>

namespace energon::python {

void bind_energon_import(nanobind::module_& module);

}  // namespace energon::python
