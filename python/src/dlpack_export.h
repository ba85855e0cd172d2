// Tensors as capsules of DLPack, which torch, NumPy and others take without a copy.

#pragma once

#include <nanobind/nanobind.h>

#include "energon/sample/sample.h"

namespace energon::python {

/// A new capsule: of version 1 of DLPack if `versioned`, else of version 0. It owns a share of the
/// memory, which whoever takes the tensor drops on any thread, without the GIL.
nanobind::object dlpack_capsule(const Tensor& tensor, bool versioned);

}  // namespace energon::python
