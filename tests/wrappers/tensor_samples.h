// Small tensors and samples of them, for tests of batch functions.

#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/error.h"
#include "tests/support/call_function.h"
#include "wrappers/batching/batch_functions.h"

namespace energon::testing {

/// An int32 tensor with the elements `numbers`, in `memory`.
inline Tensor int_tensor(std::vector<std::int64_t> shape, const std::vector<std::int32_t>& numbers,
                         BufferAllocator& memory = heap_memory()) {
  NewTensor result = new_tensor(DType::kInt32, std::move(shape), memory);
  if (result.bytes.size() != numbers.size() * sizeof(std::int32_t)) {
    throw Error(ErrorCode::kInternal, "the test gives another number of elements than its shape");
  }
  if (!numbers.empty()) {
    std::memcpy(result.bytes.data(), numbers.data(), result.bytes.size());
  }
  return result.tensor;
}

template <class Number>
std::vector<Number> elements_of(const Tensor& tensor) {
  std::vector<Number> numbers(tensor.data.size() / sizeof(Number));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), tensor.data.view.data(), tensor.data.size());
  }
  return numbers;
}

inline Sample keyed_sample(const std::string& key, Mapping fields) {
  Sample result;
  result.keys = {key};
  result.fields = std::move(fields);
  return result;
}

/// The batch as a sample, for access by name.
inline Sample made_batch(const BatchFunction& function, std::vector<Sample> samples) {
  Sample batch;
  batch.fields = call_function(function, samples);
  return batch;
}

}  // namespace energon::testing
