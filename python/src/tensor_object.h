// Exports tensors of the core to Python libraries without a copy, and copies NumPy arrays and torch
// tensors into the memory of a batch.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <optional>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon::python {

/// The Python class Tensor: a dense tensor over the memory of a batch.
///
/// Libraries take it without a copy, by DLPack or the buffer protocol. Their views keep the memory
/// alive: it is returned when the last view dies, on any thread, without the GIL. The memory may be
/// written, because it belongs to only one batch.
class TensorObject {
 public:
  explicit TensorObject(Tensor tensor);

  const Tensor& tensor() const { return tensor_; }
  std::vector<Py_ssize_t>& shape() { return shape_; }
  std::vector<Py_ssize_t>& strides() { return strides_; }

 private:
  Tensor tensor_;
  std::vector<Py_ssize_t> shape_;
  std::vector<Py_ssize_t> strides_;  // in bytes
};

/// A new DLPack capsule, which torch, NumPy and others take without a copy: version 1 of DLPack if
/// `versioned`, else version 0. It owns a share of the memory, which the library that takes the
/// tensor drops on any thread, without the GIL.
nanobind::object dlpack_capsule(const Tensor& tensor, bool versioned);

/// A contiguous copy of a numpy.ndarray with any strides; nullopt if the core does not have its
/// dtype.
std::optional<Tensor> copy_numpy(nanobind::handle array, BufferAllocator& memory);

/// A contiguous copy of a torch.Tensor on the CPU with any strides; nullopt for other devices,
/// layouts and dtypes. Gradients are not copied.
std::optional<Tensor> copy_torch(nanobind::handle tensor, BufferAllocator& memory);

}  // namespace energon::python
