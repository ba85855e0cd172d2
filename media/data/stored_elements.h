// Elements of arrays as files store them: in any order of dimensions and bytes, and of types that
// tensors do not have. Internal to media/data.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "energon/sample/sample.h"
#include "io/bytes.h"

namespace energon {

/// The dtype of the tensor and the bytes of an element in the file. They differ for unsigned
/// integers, which are read into the next wider signed type.
struct StoredType {
  DType dtype = DType::kUInt8;
  std::size_t stored_size = 1;

  bool is_widened() const { return stored_size != size_of(dtype); }
};

/// By the codes of NumPy, such as 'f' and 4. Nothing for types that no tensor has: among others
/// 64-bit unsigned integers.
std::optional<StoredType> numpy_type(char kind, std::uint64_t size);

/// Product of the dimensions; 1 without one. Nothing if a dimension is negative or the product of
/// those that are not 0 is above 2^60: the bytes of a tensor can then be computed.
std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape);

/// Distances in elements from one position of each dimension to the next, last dimension fastest
/// (row-major, "C") or first dimension fastest (column-major, "Fortran"). Requires: element_count()
/// has a value.
std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape);
std::vector<std::int64_t> column_major_strides(std::span<const std::int64_t> shape);

struct StoredArray {
  ByteView bytes;  ///< of the element at position 0 and those after it
  StoredType type;
  bool is_byte_swapped = false;
  std::span<const std::int64_t> shape;
  std::span<const std::int64_t> strides;  ///< in elements, not negative
};

/// Writes the elements in row-major order to `to`, as the dtype of the tensor. Requires: all
/// elements are inside of `bytes`, and `to` has the bytes of the tensor. Thread-safe.
void copy_elements(const StoredArray& from, std::span<std::byte> to);

}  // namespace energon
