// Values of the core, made into objects of Python.

#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "energon/sample/sample.h"

namespace energon::python {

/// What a tensor becomes that no Python function made.
enum class TensorKind : std::uint8_t {
  kEnergon,  ///< the class Tensor
  kNumpy,    ///< numpy.ndarray; bfloat16: Tensor
  kTorch,    ///< torch.Tensor
};

/// Requires: the GIL. Arrays, tensors and large bytes share the memory of `value`. Marked mappings
/// (marked_values.h) become what they were.
nanobind::object to_python(const Value& value, TensorKind tensors);

/// The tensor as `kind`, over the same memory.
nanobind::object tensor_to_python(const Tensor& tensor, TensorKind kind);

/// A text of the core. Bytes that are not UTF-8 become surrogates (surrogateescape).
nanobind::object text_to_python(std::string_view text);

/// The same for a name that many objects have: one object for all of them, which Python finds
/// faster.
nanobind::object name_to_python(std::string_view name);

/// An object of the class at `path` ("module:Name") with the entries of `fields`; a Batch if the
/// class is not found.
nanobind::object instance_to_python(const std::string& path, const nanobind::dict& fields);

}  // namespace energon::python
