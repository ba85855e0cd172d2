// Tensors that are being made.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

/// A tensor whose memory may be written until the tensor is handed on.
struct NewTensor {
  Tensor tensor;
  std::span<std::byte> bytes;  ///< of tensor.data
};

/// A new tensor in `memory`, aligned to 64 bytes and not cleared. Debug builds fill it with 0xFF
/// (floating point: not a number), so that elements that are never written stand out. Throws Error
/// (kInvalidArgument) if a dimension is negative or the size overflows, and what allocate() throws.
NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape, BufferAllocator& memory);

/// Bytes of a tensor. Throws Error (kInvalidArgument) if a dimension is negative or the size
/// overflows.
std::size_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape);

}  // namespace energon
