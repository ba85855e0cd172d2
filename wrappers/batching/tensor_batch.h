// Combines tensors: stacks them or joins them, with or without padding.
//
// The result is stored in the caller's memory, aligned to 64 bytes; each element is copied once.
// Contiguous tensors that need no padding are stacked and joined without a copy.

#pragma once

#include <span>
#include <string_view>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

/// The tensors of one field and the names of their owners, for errors. Both spans have the same
/// size, at least 1.
struct TensorGroup {
  std::string_view field;
  std::span<const Tensor* const> tensors;
  std::span<const std::string_view> owners;
};

/// Result of shape (count, *shape); shares the memory of contiguous tensors in one buffer. All four
/// throw Error (kInvalidArgument), naming both sides, if tensors do not fit.
Tensor stack_tensors(const TensorGroup& group, BufferAllocator& memory);
/// Result of shape (count, *largest), with `value` after the data.
Tensor pad_stack_tensors(const TensorGroup& group, double value, BufferAllocator& memory);
/// Joins along dimension 0. A single tensor is returned unchanged.
Tensor concat_tensors(const TensorGroup& group, BufferAllocator& memory);
/// Joins along dimension 0, with `value` after the data of the other dimensions up to the largest.
Tensor concat_pad_tensors(const TensorGroup& group, double value, BufferAllocator& memory);

}  // namespace energon
