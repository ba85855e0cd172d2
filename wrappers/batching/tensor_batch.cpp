#include "wrappers/batching/tensor_batch.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/error.h"

namespace energon {

// --- The element that fills space in padded tensors ---

namespace {

// Only the first size_of(dtype) bytes are used.
using PadElement = std::array<std::byte, 8>;

std::uint16_t to_bfloat16(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  if (std::isnan(value)) {
    return 0x7fc0;
  }
  return static_cast<std::uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

// To the nearest, ties to even. A mantissa that is rounded up carries into the exponent.
std::uint16_t to_float16(double value) {
  const double size = std::abs(value);
  std::uint32_t bits = 0;
  if (std::isnan(value)) {
    bits = 0x7e00;
  } else if (size >= 65520) {
    bits = 0x7c00;
  } else if (size < 0x1p-14) {
    bits = static_cast<std::uint32_t>(std::nearbyint(size * 0x1p24));
  } else {
    int exponent = 0;
    const double mantissa = std::nearbyint(std::frexp(size, &exponent) * 2048);
    bits = (static_cast<std::uint32_t>(exponent + 14) << 10) +
           (static_cast<std::uint32_t>(mantissa) - 1024);
  }
  return static_cast<std::uint16_t>(bits | (std::signbit(value) ? 0x8000U : 0U));
}

template <class Number>
PadElement element_of(Number number) {
  PadElement element{};
  std::memcpy(element.data(), &number, sizeof(number));
  return element;
}

template <class Integer>
PadElement integer_element(double value, DType dtype) {
  // The bounds are powers of two (or zero), hence exact.
  const double end = std::ldexp(1.0, std::numeric_limits<Integer>::digits);
  const double begin = std::numeric_limits<Integer>::is_signed ? -end : 0.0;
  if (!(value >= begin && value < end) || value != std::trunc(value)) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} cannot be padded with {}", to_string(dtype), value));
  }
  return element_of(static_cast<Integer>(value));
}

// `value` as an element of `dtype`; floating point is rounded to the nearest, ties to even. Throws
// Error (kInvalidArgument) if an integer or boolean cannot represent `value`.
PadElement pad_element(double value, DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return integer_element<std::uint8_t>(value, dtype);
    case DType::kInt8:
      return integer_element<std::int8_t>(value, dtype);
    case DType::kInt16:
      return integer_element<std::int16_t>(value, dtype);
    case DType::kInt32:
      return integer_element<std::int32_t>(value, dtype);
    case DType::kInt64:
      return integer_element<std::int64_t>(value, dtype);
    case DType::kBool:
      return integer_element<bool>(value, dtype);
    case DType::kFloat16:
      return element_of(to_float16(value));
    case DType::kBFloat16:
      return element_of(to_bfloat16(value));
    case DType::kFloat32:
      return element_of(static_cast<float>(value));
    case DType::kFloat64:
      return element_of(value);
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{} is not a dtype", static_cast<unsigned>(dtype)));
}

// Writes copies of the element, of `element_size` bytes, over all of `bytes`, a multiple of that.
void fill_with(std::span<std::byte> bytes, const PadElement& element, std::size_t element_size) {
  if (bytes.empty()) {
    return;
  }
  std::memcpy(bytes.data(), element.data(), element_size);
  for (std::size_t done = element_size; done < bytes.size(); done *= 2) {
    std::memcpy(bytes.data() + done, bytes.data(), std::min(done, bytes.size() - done));
  }
}

}  // namespace

// --- Tensors ---

namespace {

using Shape = std::span<const std::int64_t>;

std::string describe(const Tensor& tensor) {
  return fmt::format("{} ({})", to_string(tensor.dtype), fmt::join(tensor.shape, ", "));
}

[[noreturn]] void fail(const TensorGroup& group, std::size_t i, std::string_view what) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' {}: it is {} in '{}' and {} in '{}'", printable(group.field),
                          what, describe(*group.tensors[0]), printable(group.owners[0]),
                          describe(*group.tensors[i]), printable(group.owners[i])));
}

// Checks that each has the bytes of its shape, and the dtype of the first.
void check_tensors(const TensorGroup& group, std::string_view what) {
  for (std::size_t i = 0; i < group.tensors.size(); ++i) {
    const Tensor& tensor = *group.tensors[i];
    if (const std::size_t bytes = tensor_bytes(tensor.dtype, tensor.shape);
        tensor.data.size() != bytes) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' of '{}' is {} with {} bytes of data, expected {}",
                              printable(group.field), printable(group.owners[i]), describe(tensor),
                              tensor.data.size(), bytes));
    }
    if (tensor.dtype != group.tensors[0]->dtype) {
      fail(group, i, what);
    }
  }
}

void copy_bytes(const std::byte* from, std::size_t size, std::byte* to) {
  if (size != 0) {
    std::memcpy(to, from, size);
  }
}

// As BatchMemory allocates for consecutive samples.
bool are_side_by_side(std::span<const Tensor* const> tensors) {
  const SharedBytes& first = tensors[0]->data;
  const std::byte* end = first.view.data();
  return first.owner != nullptr && std::ranges::all_of(tensors, [&](const Tensor* tensor) {
           const bool is_next =
               tensor->data.owner == first.owner && tensor->data.view.data() == end;
           end += tensor->data.size();
           return is_next;
         });
}

// For contiguous tensors.
Tensor joined_in_place(const TensorGroup& group, std::vector<std::int64_t> shape) {
  const Tensor& first = *group.tensors[0];
  const std::size_t bytes = tensor_bytes(first.dtype, shape);
  return {first.dtype, std::move(shape), {{first.data.view.data(), bytes}, first.data.owner}};
}

std::vector<std::int64_t> with_leading(std::size_t count, Shape shape) {
  std::vector<std::int64_t> result{static_cast<std::int64_t>(count)};
  result.insert(result.end(), shape.begin(), shape.end());
  return result;
}

// Writes `from` into the first corner of `to`. The shapes have the same number of dimensions.
void copy_corner(const std::byte* from, Shape from_shape, std::byte* to, Shape to_shape,
                 DType dtype) {
  if (from_shape.empty() || std::ranges::equal(from_shape.subspan(1), to_shape.subspan(1))) {
    copy_bytes(from, tensor_bytes(dtype, from_shape), to);
    return;
  }
  const std::size_t from_row = tensor_bytes(dtype, from_shape.subspan(1));
  const std::size_t to_row = tensor_bytes(dtype, to_shape.subspan(1));
  for (std::int64_t i = 0; i < from_shape[0]; ++i, from += from_row, to += to_row) {
    copy_corner(from, from_shape.subspan(1), to, to_shape.subspan(1), dtype);
  }
}

// The largest size of each dimension.
std::vector<std::int64_t> largest_shape(const TensorGroup& group, std::string_view what) {
  std::vector<std::int64_t> largest = group.tensors[0]->shape;
  for (std::size_t i = 1; i < group.tensors.size(); ++i) {
    const std::vector<std::int64_t>& shape = group.tensors[i]->shape;
    if (shape.size() != largest.size()) {
      fail(group, i, what);
    }
    std::ranges::transform(shape, largest, largest.begin(),
                           [](std::int64_t a, std::int64_t b) { return std::max(a, b); });
  }
  return largest;
}

// The sum of the first dimensions.
std::int64_t joined_rows(const TensorGroup& group, std::string_view what) {
  std::int64_t rows = 0;
  for (std::size_t i = 0; i < group.tensors.size(); ++i) {
    if (group.tensors[i]->shape.empty() ||
        __builtin_add_overflow(rows, group.tensors[i]->shape[0], &rows)) {
      fail(group, i, what);
    }
  }
  return rows;
}

}  // namespace

Tensor stack_tensors(const TensorGroup& group, BufferAllocator& memory) {
  constexpr std::string_view kWhat = "has tensors that cannot be stacked";
  check_tensors(group, kWhat);
  const Tensor& first = *group.tensors[0];
  for (std::size_t i = 0; i < group.tensors.size(); ++i) {
    if (group.tensors[i]->shape != first.shape) {
      fail(group, i, kWhat);
    }
  }
  std::vector<std::int64_t> shape = with_leading(group.tensors.size(), first.shape);
  if (are_side_by_side(group.tensors)) {
    return joined_in_place(group, std::move(shape));
  }
  NewTensor result = new_tensor(first.dtype, std::move(shape), memory);
  std::byte* to = result.bytes.data();
  for (const Tensor* tensor : group.tensors) {
    copy_bytes(tensor->data.view.data(), tensor->data.size(), to);
    to += tensor->data.size();
  }
  return std::move(result.tensor);
}

Tensor pad_stack_tensors(const TensorGroup& group, double value, BufferAllocator& memory) {
  constexpr std::string_view kWhat = "has tensors that cannot be padded to one shape";
  check_tensors(group, kWhat);
  const DType dtype = group.tensors[0]->dtype;
  const std::vector<std::int64_t> largest = largest_shape(group, kWhat);
  const PadElement element = pad_element(value, dtype);
  const auto has_largest = [&largest](const Tensor* tensor) { return tensor->shape == largest; };
  if (std::ranges::all_of(group.tensors, has_largest)) {
    return stack_tensors(group, memory);
  }
  const std::size_t row = tensor_bytes(dtype, largest);
  NewTensor result = new_tensor(dtype, with_leading(group.tensors.size(), largest), memory);
  for (std::size_t i = 0; i < group.tensors.size(); ++i) {
    const Tensor& tensor = *group.tensors[i];
    const std::span<std::byte> to = result.bytes.subspan(i * row, row);
    if (tensor.shape != largest) {
      fill_with(to, element, size_of(dtype));
    }
    copy_corner(tensor.data.view.data(), tensor.shape, to.data(), largest, dtype);
  }
  return std::move(result.tensor);
}

Tensor concat_tensors(const TensorGroup& group, BufferAllocator& memory) {
  constexpr std::string_view kWhat = "has tensors that cannot be joined along dimension 0";
  check_tensors(group, kWhat);
  std::vector<std::int64_t> shape = group.tensors[0]->shape;
  const std::int64_t rows = joined_rows(group, kWhat);
  for (std::size_t i = 1; i < group.tensors.size(); ++i) {
    const std::vector<std::int64_t>& other = group.tensors[i]->shape;
    if (other.size() != shape.size() ||
        !std::equal(shape.begin() + 1, shape.end(), other.begin() + 1)) {
      fail(group, i, kWhat);
    }
  }
  if (group.tensors.size() == 1) {
    return *group.tensors[0];
  }
  shape[0] = rows;
  if (are_side_by_side(group.tensors)) {
    return joined_in_place(group, std::move(shape));
  }
  NewTensor result = new_tensor(group.tensors[0]->dtype, std::move(shape), memory);
  std::byte* to = result.bytes.data();
  for (const Tensor* tensor : group.tensors) {
    copy_bytes(tensor->data.view.data(), tensor->data.size(), to);
    to += tensor->data.size();
  }
  return std::move(result.tensor);
}

Tensor concat_pad_tensors(const TensorGroup& group, double value, BufferAllocator& memory) {
  constexpr std::string_view kWhat = "has tensors that cannot be padded and joined";
  check_tensors(group, kWhat);
  const DType dtype = group.tensors[0]->dtype;
  std::vector<std::int64_t> shape = largest_shape(group, kWhat);
  const std::int64_t rows = joined_rows(group, kWhat);
  const PadElement element = pad_element(value, dtype);
  const auto needs_no_padding = [&shape](const Tensor* tensor) {
    return std::equal(shape.begin() + 1, shape.end(), tensor->shape.begin() + 1);
  };
  if (std::ranges::all_of(group.tensors, needs_no_padding)) {
    return concat_tensors(group, memory);
  }
  shape[0] = rows;
  NewTensor result = new_tensor(dtype, shape, memory);
  std::size_t begin = 0;
  for (const Tensor* tensor : group.tensors) {
    shape[0] = tensor->shape[0];
    const std::span<std::byte> to = result.bytes.subspan(begin, tensor_bytes(dtype, shape));
    if (!needs_no_padding(tensor)) {
      fill_with(to, element, size_of(dtype));
    }
    copy_corner(tensor->data.view.data(), tensor->shape, to.data(), shape, dtype);
    begin += to.size();
  }
  return std::move(result.tensor);
}

}  // namespace energon
