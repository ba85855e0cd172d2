// The parts of the module. Each adds its classes and functions.

#pragma once

#include <nanobind/nanobind.h>

namespace energon::python {

void bind_buffer(nanobind::module_& module);
void bind_tensor(nanobind::module_& module);
void bind_origin(nanobind::module_& module);
void bind_state(nanobind::module_& module);
void bind_part_decoder(nanobind::module_& module);
void bind_stores(nanobind::module_& module);
void bind_cook_call(nanobind::module_& module);
void bind_active_call(nanobind::module_& module);
void bind_av(nanobind::module_& module);
void bind_recipe(nanobind::module_& module);
void bind_prepare(nanobind::module_& module);
void bind_job_state(nanobind::module_& module);
void bind_pipeline(nanobind::module_& module);
void bind_loaders(nanobind::module_& module);
void bind_epoch(nanobind::module_& module);
void bind_native_functions(nanobind::module_& module);
void bind_lookup(nanobind::module_& module);
void bind_energon_import(nanobind::module_& module);

}  // namespace energon::python
