// Arrays of NumPy and tensors of torch, copied into the memory of a batch.

#pragma once

#include <nanobind/nanobind.h>

#include <optional>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon::python {

/// A contiguous copy of a numpy.ndarray with any strides; nothing if its dtype is not one of the
/// core's.
std::optional<Tensor> copy_numpy(nanobind::handle array, BufferAllocator& memory);

/// A contiguous copy of a torch.Tensor on the CPU with any strides; nothing for other devices,
/// layouts and dtypes. Gradients are not copied.
std::optional<Tensor> copy_torch(nanobind::handle tensor, BufferAllocator& memory);

}  // namespace energon::python
