// Converts values of the core to Python objects.

#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "energon/sample/sample.h"

namespace energon::python {

/// The Python type of a tensor that no Python function made.
enum class TensorKind : std::uint8_t {
  kEnergon,  ///< the class Tensor
  kNumpy,    ///< numpy.ndarray, but Tensor for bfloat16
  kTorch,    ///< torch.Tensor
};

/// Requires: the GIL. Arrays, tensors and large bytes share the memory of `value`. Marked values
/// (marked_values.h) become the objects that they encode.
nanobind::object to_python(const Value& value, TensorKind tensors);

/// The tensor as `kind`, over the same memory.
nanobind::object tensor_to_python(const Tensor& tensor, TensorKind kind);

/// Converts a string. Bytes that are not UTF-8 become surrogates (surrogateescape).
nanobind::object text_to_python(std::string_view text);

/// The same for a name that many objects have. It becomes one interned object, which Python finds
/// faster.
nanobind::object name_to_python(std::string_view name);

/// Makes an object of the class at `path` ("module:Name") with the entries of `fields`, or a Batch
/// if the class is not found.
nanobind::object instance_to_python(const std::string& path, const nanobind::dict& fields);

}  // namespace energon::python
