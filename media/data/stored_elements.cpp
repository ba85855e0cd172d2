#include "media/data/stored_elements.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace energon {
namespace {

constexpr std::int64_t kMaxElements = std::int64_t{1} << 60;

template <class Number>
Number byte_swapped(Number number) {
  if constexpr (sizeof(Number) == 2) {
    return __builtin_bswap16(number);
  } else if constexpr (sizeof(Number) == 4) {
    return __builtin_bswap32(number);
  } else if constexpr (sizeof(Number) == 8) {
    return __builtin_bswap64(number);
  } else {
    return number;
  }
}

// Copies the bits of one run along the last dimension. A wider Result gets leading zeros.
template <class Stored, class Result>
void copy_run(const std::byte* from, std::int64_t stride, std::int64_t count, bool is_byte_swapped,
              std::byte* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    Stored stored;
    std::memcpy(&stored, from + i * stride * static_cast<std::int64_t>(sizeof stored),
                sizeof stored);
    const Result result = is_byte_swapped ? byte_swapped(stored) : stored;
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof result), &result, sizeof result);
  }
}

template <class Stored, class Result>
void copy_array(const StoredArray& from, std::byte* to) {
  const std::size_t outer = from.shape.empty() ? 0 : from.shape.size() - 1;
  const std::int64_t run = from.shape.empty() ? 1 : from.shape.back();
  const std::int64_t run_stride = from.shape.empty() ? 1 : from.strides.back();
  std::vector<std::int64_t> position(outer);
  std::int64_t offset = 0;  // of the current run, in elements
  while (true) {
    copy_run<Stored, Result>(from.bytes.data() + offset * static_cast<std::int64_t>(sizeof(Stored)),
                             run_stride, run, from.is_byte_swapped, to);
    to += run * static_cast<std::int64_t>(sizeof(Result));
    std::size_t dimension = outer;
    for (; dimension > 0; --dimension) {
      const std::size_t i = dimension - 1;
      offset += from.strides[i];
      if (++position[i] < from.shape[i]) {
        break;
      }
      offset -= from.strides[i] * from.shape[i];
      position[i] = 0;
    }
    if (dimension == 0) {
      return;
    }
  }
}

template <class Stored, class Wider>
void copy_or_widen(const StoredArray& from, std::byte* to) {
  from.type.is_widened() ? copy_array<Stored, Wider>(from, to)
                         : copy_array<Stored, Stored>(from, to);
}

bool is_row_major(const StoredArray& array) {
  return std::ranges::equal(array.strides, row_major_strides(array.shape));
}

}  // namespace

std::optional<StoredType> numpy_type(char kind, std::uint64_t size) {
  switch (kind) {
    case 'b':
      return size == 1 ? std::optional(StoredType{DType::kBool, 1}) : std::nullopt;
    case 'u':
      return size == 1   ? std::optional(StoredType{DType::kUInt8, 1})
             : size == 2 ? std::optional(StoredType{DType::kInt32, 2})
             : size == 4 ? std::optional(StoredType{DType::kInt64, 4})
                         : std::nullopt;
    case 'i':
      return size == 1   ? std::optional(StoredType{DType::kInt8, 1})
             : size == 2 ? std::optional(StoredType{DType::kInt16, 2})
             : size == 4 ? std::optional(StoredType{DType::kInt32, 4})
             : size == 8 ? std::optional(StoredType{DType::kInt64, 8})
                         : std::nullopt;
    case 'f':
      return size == 2   ? std::optional(StoredType{DType::kFloat16, 2})
             : size == 4 ? std::optional(StoredType{DType::kFloat32, 4})
             : size == 8 ? std::optional(StoredType{DType::kFloat64, 8})
                         : std::nullopt;
    default:
      return std::nullopt;
  }
}

std::optional<std::int64_t> element_count(std::span<const std::int64_t> shape) {
  std::int64_t count = 1;
  bool is_empty = false;
  for (const std::int64_t size : shape) {
    if (size < 0) {
      return std::nullopt;
    }
    if (size == 0) {
      is_empty = true;
    } else if (__builtin_mul_overflow(count, size, &count) || count > kMaxElements) {
      return std::nullopt;
    }
  }
  return is_empty ? 0 : count;
}

std::vector<std::int64_t> row_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> result(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = shape.size(); i > 0; --i) {
    result[i - 1] = stride;
    stride *= std::max<std::int64_t>(shape[i - 1], 1);
  }
  return result;
}

std::vector<std::int64_t> column_major_strides(std::span<const std::int64_t> shape) {
  std::vector<std::int64_t> result(shape.size());
  std::int64_t stride = 1;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    result[i] = stride;
    stride *= std::max<std::int64_t>(shape[i], 1);
  }
  return result;
}

void copy_elements(const StoredArray& from, std::span<std::byte> to) {
  static_assert(std::endian::native == std::endian::little);
  if (to.empty()) {
    return;
  }
  if (!from.type.is_widened() && !from.is_byte_swapped && is_row_major(from)) {
    std::memcpy(to.data(), from.bytes.data(), to.size());
    return;
  }
  switch (from.type.stored_size) {
    case 1:
      return copy_array<std::uint8_t, std::uint8_t>(from, to.data());
    case 2:
      return copy_or_widen<std::uint16_t, std::uint32_t>(from, to.data());
    case 4:
      return copy_or_widen<std::uint32_t, std::uint64_t>(from, to.data());
    default:
      return copy_array<std::uint64_t, std::uint64_t>(from, to.data());
  }
}

}  // namespace energon
