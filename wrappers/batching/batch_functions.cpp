#include "wrappers/batching/batch_functions.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "wrappers/batching/field_values.h"
#include "wrappers/batching/tensor_batch.h"

namespace energon {
namespace {

Value keep_list(const std::string& /*field*/, List values,
                std::span<const std::string_view> /*owners*/, BufferAllocator& /*memory*/) {
  return Value(std::move(values));
}

Value stack_values(const std::string& field, List values, std::span<const std::string_view> owners,
                   BufferAllocator& memory) {
  if (auto tensor = to_tensor(field, values, owners, stack_tensors, memory)) {
    return std::move(*tensor);
  }
  fail_kinds(field, values, owners, "only tensors and numbers can be stacked");
}

Value pad_tensors(const TensorGroup& group, BufferAllocator& memory) {
  return pad_stack_tensors(group, 0, memory);
}

Value padded_or_listed(const std::string& field, List values,
                       std::span<const std::string_view> owners, BufferAllocator& memory) {
  if (values.empty()) {
    return Value(std::move(values));
  }
  if (all_are<Mapping>(values)) {
    return Value(
        batch_mappings(pointers<Mapping>(values), owners, field + ".", padded_or_listed, memory));
  }
  if (all_are<Tensor>(values)) {
    return to_tensor(field, values, owners, pad_tensors, memory).value();
  }
  return Value(std::move(values));
}

}  // namespace

Mapping list_fields(std::span<Sample> samples) {
  return batch_fields(samples, keep_list, heap_memory());
}

Mapping stack_fields(std::span<Sample> samples, CallContext& context) {
  return batch_fields(samples, stack_values, context.memory());
}

Mapping concat_fields(std::span<Sample> samples, CallContext& context) {
  return batch_fields(samples, concat_values, context.memory());
}

Mapping generic_batch(std::span<Sample> samples, CallContext& context) {
  const TensorsFunction pad = pad_tensors;
  return batch_fields(
      samples,
      [&pad](const std::string& field, List values, std::span<const std::string_view> owners,
             BufferAllocator& memory) {
        return generic_values(field, std::move(values), owners, pad, memory);
      },
      context.memory());
}

Mapping energon_batch(std::span<Sample> samples, CallContext& context) {
  return batch_fields(samples, padded_or_listed, context.memory());
}

Value concat_values(std::string_view field, List values, std::span<const std::string_view> owners,
                    BufferAllocator& memory) {
  if (values.empty()) {
    return Value(std::move(values));
  }
  if (all_are<Tensor>(values)) {
    const std::vector<Tensor*> found = pointers<Tensor>(values);
    const std::vector<const Tensor*> tensors(found.begin(), found.end());
    return Value(concat_tensors({field, tensors, owners}, memory));
  }
  if (all_are<List>(values)) {
    List joined;
    for (List* list : pointers<List>(values)) {
      std::ranges::move(*list, std::back_inserter(joined));
    }
    return Value(std::move(joined));
  }
  if (all_are<Mapping>(values)) {
    return Value(batch_mappings(pointers<Mapping>(values), owners, std::string(field) + ".",
                                concat_values, memory));
  }
  fail_kinds(field, values, owners, "only tensors, lists and mappings can be joined");
}

}  // namespace energon
