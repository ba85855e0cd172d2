// Copies elements of arrays as files store them: in any order of dimensions and bytes, and of types
// that tensors do not have. Internal to media/data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// The dtype of the tensor, and the size of an element in the file. The sizes differ for unsigned
/// integers, which are read into the next wider signed type.
struct StoredType {
  DType dtype = DType::kUInt8;
  std::size_t stored_size = 1;

  bool is_widened() const { return stored_size != size_of(dtype); }
};

/// The type for codes of NumPy, such as 'f' and 4. nullopt for types that tensors do not have, such
/// as uint64.
std::optional<StoredType> numpy_type(char kind, std::uint64_t size);

/// The product of the dimensions; 1 without dimensions. nullopt if a dimension is negative, or if
/// the product of those that are not 0 exceeds 2^60, so that the bytes of a tensor can be computed.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape);

/// Distances in elements from one position of each dimension to the next, with the last dimension
/// fastest (row-major, "C") or the first (column-major, "Fortran"). Requires: element_count() has a
/// value.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);
std::vector<std::int64_t> column_major_strides(std::span<const std::int64_t> shape);

struct StoredArray {
  ByteView bytes;  ///< begin with the element at position 0
  StoredType type;
  bool is_byte_swapped = false;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  ///< in elements, not negative
};

/// Writes the elements to `to` in row-major order, as the dtype of the tensor. Requires: all
/// elements are inside `bytes`, and `to` has the size of the tensor. Thread-safe.
void copy_elements(const StoredArray& from, std::span<std::byte> to);

}  // namespace energon
