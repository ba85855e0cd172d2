// Tensors put together: stacked, padded and stacked, joined.
//
// The result lies in heap memory of its own, aligned to 64 bytes; each element is copied once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/sample.h"

namespace energon {

/// A tensor whose memory may be written until it is handed on.
struct NewTensor {
  Tensor tensor;
  std::span<std::byte> bytes;  ///< of tensor.data
};

/// Memory is not cleared; debug builds fill it with 0xFF, as floating point not a number, so that
/// what a function forgets to write is seen. Throws Error (kInvalidArgument) if a dimension is
/// negative or the size overflows.
NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape);

/// Tensors of one field, and whose they are, for errors. Both of the same size, at least 1.
struct TensorGroup {
  std::string_view field;
  std::span<const Tensor* const> tensors;
  std::span<const std::string> owners;
};

/// Shape (count, *shape). All throw Error (kInvalidArgument) that names both sides.
Tensor stack_tensors(const TensorGroup& group);
/// Shape (count, *largest): `value` behind the data.
Tensor pad_stack_tensors(const TensorGroup& group, double value);
/// Along dimension 0. A single tensor is returned as it is.
Tensor concat_tensors(const TensorGroup& group);

}  // namespace energon
