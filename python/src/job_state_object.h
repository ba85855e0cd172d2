// The Python class JobState: SavableJobState.

#pragma once

#include <nanobind/nanobind.h>

namespace energon::python {

void bind_job_state(nanobind::module_& module);

}  // namespace energon::python
