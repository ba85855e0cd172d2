// Converts numbers, as JSON and arrays have them, to a float32 tensor. Private to this folder.

#pragma once

#include <cstddef>
#include <optional>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon {

/// `value` as a float32 tensor with `dimensions` (1 or 2), rounded to the nearest: a tensor of
/// numbers, or a list of numbers, or a list of lists of one length. An empty list of lists has the
/// shape (0, 0). A float32 tensor is shared, others lie in `memory`. Nothing if `value` is not of
/// that form. Throws what allocate() throws.
std::optional<Tensor> float_tensor(const Value& value, std::size_t dimensions,
                                   BufferAllocator& memory);

}  // namespace energon
