// The element that fills space in padded tensors. Internal to wrappers/batching.

#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "energon/sample/sample.h"

namespace energon {

/// The first size_of(dtype) bytes count.
using PadElement = std::array<std::byte, 8>;

/// `value` as an element of `dtype`; floating point is rounded to the nearest, ties to even. Throws
/// Error (kInvalidArgument) if an integer or truth value cannot be `value`.
PadElement pad_element(double value, DType dtype);

/// Writes copies of the element, of `element_size` bytes, over all of `bytes`, a multiple of that.
void fill_with(std::span<std::byte> bytes, const PadElement& element, std::size_t element_size);

}  // namespace energon
