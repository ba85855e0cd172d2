// Shared by the batch functions: collects the values of one field of all samples, and combines
// them. Internal to wrappers/batching.

#pragma once

#include <algorithm>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "wrappers/batching/tensor_batch.h"

namespace energon {

/// Combines the values of one field. `owners` has a name for each value, for errors.
using ValuesFunction =
    std::function<Value(const std::string& field, List values,
                        std::span<const std::string_view> owners, BufferAllocator& memory)>;

/// Combines the tensors of one field.
using TensorsFunction = std::function<Value(const TensorGroup& group, BufferAllocator& memory)>;

/// The fields of samples and the names of their owners. Refers to the samples.
struct SampleMappings {
  explicit SampleMappings(std::span<Sample> samples);
  std::vector<Mapping*> mappings;
  std::vector<std::string_view> owners;
};

/// The fields of `samples`, in the order of first appearance, each list of values replaced by the
/// result of `function`. Throws Error (kInvalidArgument) that names field and sample if a field is
/// missing or duplicated.
Mapping batch_fields(std::span<Sample> samples, const ValuesFunction& function,
                     BufferAllocator& memory);

/// The same for mappings that are values of a field; `prefix` is written before names.
Mapping batch_mappings(std::span<Mapping* const> mappings, std::span<const std::string_view> owners,
                       const std::string& prefix, const ValuesFunction& function,
                       BufferAllocator& memory);

template <class Kind>
bool all_are(const List& values) {
  return std::ranges::all_of(
      values, [](const Value& value) { return std::holds_alternative<Kind>(value.base()); });
}

/// Pointers into `values`, which must all be of this kind.
template <class Kind>
std::vector<Kind*> pointers(List& values) {
  std::vector<Kind*> result;
  result.reserve(values.size());
  for (Value& value : values) {
    result.push_back(&std::get<Kind>(value.base()));
  }
  return result;
}

/// Combines tensors with `function`, and integers, floats and booleans to a tensor of shape
/// (samples). Nullopt for other values, or several kinds.
std::optional<Value> to_tensor(std::string_view field, List& values,
                               std::span<const std::string_view> owners,
                               const TensorsFunction& function, BufferAllocator& memory);

/// As generic_batch(), but combines tensors with `function`, including those in mappings.
Value generic_values(const std::string& field, List values,
                     std::span<const std::string_view> owners, const TensorsFunction& function,
                     BufferAllocator& memory);

/// Throws Error (kInvalidArgument) because `values` cannot be combined. `wanted` describes the
/// values that can.
[[noreturn]] void fail_kinds(std::string_view field, const List& values,
                             std::span<const std::string_view> owners, std::string_view wanted);

}  // namespace energon
