#include "wrappers/types/float_tensor.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "energon/sample/buffer_allocator.h"

namespace energon {
namespace {

std::optional<float> number_of(const Value& value) {
  if (const auto* const integer = std::get_if<std::int64_t>(&value.base())) {
    return static_cast<float>(*integer);
  }
  if (const auto* const number = std::get_if<double>(&value.base())) {
    return static_cast<float>(*number);
  }
  return std::nullopt;
}

bool append_numbers(const List& list, std::vector<float>& numbers) {
  for (const Value& item : list) {
    const std::optional<float> number = number_of(item);
    if (!number) {
      return false;
    }
    numbers.push_back(*number);
  }
  return true;
}

Tensor tensor_of(const std::vector<float>& numbers, std::vector<std::int64_t> shape,
                 BufferAllocator& memory) {
  NewTensor made = new_tensor(DType::kFloat32, std::move(shape), memory);
  if (!numbers.empty()) {
    std::memcpy(made.bytes.data(), numbers.data(), made.bytes.size());
  }
  return std::move(made.tensor);
}

std::optional<Tensor> float_vector(const List& list, BufferAllocator& memory) {
  std::vector<float> numbers;
  if (!append_numbers(list, numbers)) {
    return std::nullopt;
  }
  return tensor_of(numbers, {static_cast<std::int64_t>(list.size())}, memory);
}

std::optional<Tensor> float_matrix(const List& rows, BufferAllocator& memory) {
  std::vector<float> numbers;
  std::size_t columns = 0;
  for (const Value& item : rows) {
    const auto* const row = std::get_if<List>(&item.base());
    if (row == nullptr || (&item != &rows.front() && row->size() != columns) ||
        !append_numbers(*row, numbers)) {
      return std::nullopt;
    }
    columns = row->size();
  }
  return tensor_of(numbers,
                   {static_cast<std::int64_t>(rows.size()), static_cast<std::int64_t>(columns)},
                   memory);
}

template <class Number>
std::vector<float> converted(const Tensor& tensor) {
  std::vector<float> numbers(tensor.data.size() / sizeof(Number));
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    Number number{};
    std::memcpy(&number, tensor.data.view.data() + i * sizeof(Number), sizeof(Number));
    numbers[i] = static_cast<float>(number);
  }
  return numbers;
}

// Nothing for kinds of numbers that no tool stores coordinates in.
std::optional<std::vector<float>> converted_numbers(const Tensor& tensor) {
  switch (tensor.dtype) {
    case DType::kUInt8:
      return converted<std::uint8_t>(tensor);
    case DType::kInt8:
      return converted<std::int8_t>(tensor);
    case DType::kInt16:
      return converted<std::int16_t>(tensor);
    case DType::kInt32:
      return converted<std::int32_t>(tensor);
    case DType::kInt64:
      return converted<std::int64_t>(tensor);
    case DType::kFloat32:
      return converted<float>(tensor);
    case DType::kFloat64:
      return converted<double>(tensor);
    case DType::kFloat16:
    case DType::kBFloat16:
    case DType::kBool:
      return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace

std::optional<Tensor> float_tensor(const Value& value, std::size_t dimensions,
                                   BufferAllocator& memory) {
  if (const auto* const tensor = std::get_if<Tensor>(&value.base())) {
    if (tensor->shape.size() != dimensions) {
      return std::nullopt;
    }
    if (tensor->dtype == DType::kFloat32) {
      return *tensor;
    }
    const std::optional<std::vector<float>> numbers = converted_numbers(*tensor);
    return numbers ? std::optional(tensor_of(*numbers, tensor->shape, memory)) : std::nullopt;
  }
  const auto* const list = std::get_if<List>(&value.base());
  if (list == nullptr) {
    return std::nullopt;
  }
  return dimensions == 1 ? float_vector(*list, memory) : float_matrix(*list, memory);
}

}  // namespace energon
