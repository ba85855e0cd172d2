// Combines tensors: stacks them, pads and stacks them, or joins them.
//
// The result has its own heap memory, aligned to 64 bytes; each element is copied once.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/sample.h"

namespace energon {

/// A tensor whose memory may be written until the tensor is handed on.
struct NewTensor {
  Tensor tensor;
  std::span<std::byte> bytes;  ///< of tensor.data
};

/// A new tensor; its memory is not cleared. Debug builds fill it with 0xFF (floating point: not a
/// number), so that elements that are never written stand out. Throws Error (kInvalidArgument) if a
/// dimension is negative or the size overflows.
NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape);

/// The tensors of one field and the names of their owners, for errors. Both spans have the same
/// size, at least 1.
struct TensorGroup {
  std::string_view field;
  std::span<const Tensor* const> tensors;
  std::span<const std::string_view> owners;
};

/// Result of shape (count, *shape). All three throw Error (kInvalidArgument), naming both sides, if
/// tensors do not fit.
Tensor stack_tensors(const TensorGroup& group);
/// Result of shape (count, *largest), with `value` after the data.
Tensor pad_stack_tensors(const TensorGroup& group, double value);
/// Joins along dimension 0. A single tensor is returned unchanged.
Tensor concat_tensors(const TensorGroup& group);

}  // namespace energon
