// Tensors of the core, which libraries of Python take without a copy, and arrays of NumPy and
// tensors of torch, copied into the memory of a batch.

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
/// Libraries take it without a copy, by DLPack or the buffer protocol. What they make of it keeps
/// the memory alive: it is given back when the last view dies, on any thread, without the GIL. The
/// memory may be written: it belongs to one batch only.
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

/// A new capsule of DLPack, which torch, NumPy and others take without a copy: of version 1 of
/// DLPack if `versioned`, else of version 0. It owns a share of the memory, which whoever takes the
/// tensor drops on any thread, without the GIL.
nanobind::object dlpack_capsule(const Tensor& tensor, bool versioned);

/// A contiguous copy of a numpy.ndarray with any strides; nothing if its dtype is not one of the
/// core's.
std::optional<Tensor> copy_numpy(nanobind::handle array, BufferAllocator& memory);

/// A contiguous copy of a torch.Tensor on the CPU with any strides; nothing for other devices,
/// layouts and dtypes. Gradients are not copied.
std::optional<Tensor> copy_torch(nanobind::handle tensor, BufferAllocator& memory);

}  // namespace energon::python
