// The Python class Tensor: a dense tensor over the memory of a batch.
//
// Libraries take it without a copy, by DLPack or the buffer protocol. What they make of it keeps
// the memory alive: it is given back when the last view dies, on any thread, without the GIL. The
// memory may be written: it belongs to one batch only.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <optional>
#include <string_view>
#include <vector>

#include "energon/sample/sample.h"

namespace energon::python {

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

/// The dtype that elements of the format `format` of the buffer protocol have; nothing for others.
std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t item_size);

void bind_tensor(nanobind::module_& module);

}  // namespace energon::python
