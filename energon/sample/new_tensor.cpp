#include "energon/sample/new_tensor.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {
namespace {

#ifndef NDEBUG
constexpr std::byte kPoison{0xFF};  // floating point: not a number
#endif

}  // namespace

std::size_t tensor_bytes(DType dtype, std::span<const std::int64_t> shape) {
  std::size_t bytes = size_of(dtype);
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, static_cast<std::size_t>(size), &bytes)) {
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("no tensor has the shape ({})", fmt::join(shape.begin(), shape.end(), ", ")));
    }
  }
  return bytes;
}

NewTensor new_tensor(DType dtype, std::vector<std::int64_t> shape, BufferAllocator& memory) {
  const std::size_t size = tensor_bytes(dtype, shape);
  Buffer buffer = memory.allocate(size);
#ifndef NDEBUG
  std::ranges::fill(buffer.bytes, kPoison);
#endif
  return {{dtype, std::move(shape), {buffer.bytes, std::move(buffer.owner)}}, buffer.bytes};
}

}  // namespace energon
