// The native half of AVDecoder: a decoder of sound and video over bytes.

#pragma once

#include <nanobind/nanobind.h>

namespace energon::python {

void bind_av(nanobind::module_& module);

}  // namespace energon::python
