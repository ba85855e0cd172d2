#include "wrappers/batching/batch_functions.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/new_tensor.h"
#include "io/error.h"
#include "wrappers/batching/tensor_batch.h"

namespace energon {
namespace {

// What becomes of the list of one field's values.
using ValuesFunction =
    std::function<Value(const std::string& field, List values,
                        std::span<const std::string_view> owners, BufferAllocator& memory)>;

[[noreturn]] void fail_missing(std::string_view field, std::string_view owner) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("part '{}' is missing in sample '{}' of the batch; give Batch a function "
                          "that knows what to do, or exclude the sample",
                          printable(field), printable(owner)));
}

[[noreturn]] void fail_twice(std::string_view field, std::string_view owner) {
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("field '{}' comes twice in sample '{}': give each field a name of its own",
                  printable(field), printable(owner)));
}

// One list per name, in the order of first appearance; `prefix` is written before names in errors.
Mapping gather(std::span<Mapping* const> mappings, std::span<const std::string_view> owners,
               const std::string& prefix) {
  Mapping fields;
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    for (std::size_t k = 0; k < mappings[i]->size(); ++k) {
      auto& [name, value] = (*mappings[i])[k];
      // Samples of one shard mostly have the same parts in the same order, so look at the same
      // place first.
      auto field =
          k < fields.size() && fields[k].first == name
              ? fields.begin() + static_cast<std::ptrdiff_t>(k)
              : std::find_if(fields.begin(), fields.end(),
                             [&name = name](const auto& entry) { return entry.first == name; });
      if (field == fields.end()) {
        fields.emplace_back(name, List());
        field = fields.end() - 1;
        std::get<List>(field->second.base()).reserve(mappings.size());
      }
      auto& list = std::get<List>(field->second.base());
      if (list.size() > i) {
        fail_twice(prefix + name, owners[i]);
      }
      if (list.size() < i) {
        fail_missing(prefix + name, owners[list.size()]);
      }
      list.push_back(std::move(value));
    }
  }
  for (const auto& [name, value] : fields) {
    if (const std::size_t count = std::get<List>(value.base()).size(); count != mappings.size()) {
      fail_missing(prefix + name, owners[count]);
    }
  }
  return fields;
}

Mapping batch_mappings(std::span<Mapping* const> mappings, std::span<const std::string_view> owners,
                       const std::string& prefix, const ValuesFunction& function,
                       BufferAllocator& memory) {
  Mapping fields = gather(mappings, owners, prefix);
  for (auto& [name, value] : fields) {
    value = function(prefix + name, std::move(std::get<List>(value.base())), owners, memory);
  }
  return fields;
}

// The fields of `samples`, each list of values replaced by `function` of it.
Mapping batch_fields(std::span<Sample> samples, const ValuesFunction& function,
                     BufferAllocator& memory) {
  std::vector<Mapping*> mappings;
  std::vector<std::string_view> owners;
  mappings.reserve(samples.size());
  owners.reserve(samples.size());
  for (Sample& sample : samples) {
    mappings.push_back(&sample.fields);
    owners.push_back(sample.keys.empty() ? std::string_view() : sample.keys.front());
  }
  return batch_mappings(mappings, owners, "", function, memory);
}

Value keep_list(const std::string& /*field*/, List values,
                std::span<const std::string_view> /*owners*/, BufferAllocator& /*memory*/) {
  return Value(std::move(values));
}

template <class Kind>
bool all_are(const List& values) {
  return std::ranges::all_of(
      values, [](const Value& value) { return std::holds_alternative<Kind>(value.base()); });
}

// Pointers into `values`, which must all be of this kind.
template <class Kind>
std::vector<Kind*> pointers(List& values) {
  std::vector<Kind*> result;
  result.reserve(values.size());
  for (Value& value : values) {
    result.push_back(&std::get<Kind>(value.base()));
  }
  return result;
}

template <class Number>
Tensor number_tensor(const List& values, DType dtype, BufferAllocator& memory) {
  NewTensor result = new_tensor(dtype, {static_cast<std::int64_t>(values.size())}, memory);
  std::byte* to = result.bytes.data();
  for (const Value& value : values) {
    std::memcpy(to, &std::get<Number>(value.base()), sizeof(Number));
    to += sizeof(Number);
  }
  return std::move(result.tensor);
}

// Tensors made one by `function`, numbers as a tensor; nothing if they are neither.
template <class Function>
std::optional<Value> to_tensor(std::string_view field, List& values,
                               std::span<const std::string_view> owners, const Function& function,
                               BufferAllocator& memory) {
  if (values.empty()) {
    return std::nullopt;
  }
  if (all_are<Tensor>(values)) {
    std::vector<const Tensor*> tensors;
    for (const Tensor* tensor : pointers<Tensor>(values)) {
      tensors.push_back(tensor);
    }
    return Value(function(TensorGroup{field, tensors, owners}, memory));
  }
  if (all_are<std::int64_t>(values)) {
    return Value(number_tensor<std::int64_t>(values, DType::kInt64, memory));
  }
  if (all_are<double>(values)) {
    return Value(number_tensor<double>(values, DType::kFloat64, memory));
  }
  if (all_are<bool>(values)) {
    return Value(number_tensor<bool>(values, DType::kBool, memory));
  }
  return std::nullopt;
}

std::string_view kind_of(const Value& value) {
  constexpr std::string_view kKinds[] = {"raw bytes", "text",         "an integer", "a number",
                                         "a tensor",  "a list",       "a mapping",  "lazy bytes",
                                         "null",      "a truth value"};
  static_assert(std::size(kKinds) == std::variant_size_v<Value::Base>);
  return kKinds[value.base().index()];
}

// `values` cannot be made one tensor.
[[noreturn]] void fail_kinds(std::string_view field, const List& values,
                             std::span<const std::string_view> owners, std::string_view wanted) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (std::holds_alternative<SharedBytes>(values[i].base())) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' of '{}' is raw bytes: decode the part to a tensor before "
                              "it is batched, or list it",
                              printable(field), printable(owners[i])));
    }
    if (std::holds_alternative<LazyBytes>(values[i].base())) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' of '{}' is lazy bytes: fetch it with get() and decode it "
                              "to a tensor before it is batched, or list it",
                              printable(field), printable(owners[i])));
    }
  }
  const auto other = std::ranges::find_if(values, [&](const Value& value) {
    return value.base().index() != values.front().base().index();
  });
  const std::size_t i =
      other == values.end() ? 0 : static_cast<std::size_t>(other - values.begin());
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' is {} in '{}' and {} in '{}'; {}", printable(field),
                          kind_of(values[0]), printable(owners[0]), kind_of(values[i]),
                          printable(owners[i]), wanted));
}

Value stack_values(const std::string& field, List values, std::span<const std::string_view> owners,
                   BufferAllocator& memory) {
  if (auto tensor = to_tensor(field, values, owners, stack_tensors, memory)) {
    return std::move(*tensor);
  }
  fail_kinds(field, values, owners, "only tensors and numbers can be stacked");
}

Value generic_values(const std::string& field, List values,
                     std::span<const std::string_view> owners, BufferAllocator& memory) {
  const auto pad = [](const TensorGroup& group, BufferAllocator& to) {
    return pad_stack_tensors(group, 0, to);
  };
  if (auto tensor = to_tensor(field, values, owners, pad, memory)) {
    return std::move(*tensor);
  }
  if (!values.empty() && all_are<Mapping>(values)) {
    return Value(
        batch_mappings(pointers<Mapping>(values), owners, field + ".", generic_values, memory));
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

BatchFunction pad_stack_fields(PadOptions options) {
  const auto pad_values = [options](const std::string& field, List values,
                                    std::span<const std::string_view> owners,
                                    BufferAllocator& memory) -> Value {
    const auto pad = [&options](const TensorGroup& group, BufferAllocator& to) {
      return pad_stack_tensors(group, options.value, to);
    };
    if (auto tensor = to_tensor(field, values, owners, pad, memory)) {
      return std::move(*tensor);
    }
    fail_kinds(field, values, owners, "only tensors and numbers can be padded and stacked");
  };
  return [pad_values](std::span<Sample> samples, CallContext& context) {
    return batch_fields(samples, pad_values, context.memory());
  };
}

Mapping concat_fields(std::span<Sample> samples, CallContext& context) {
  return batch_fields(samples, concat_values, context.memory());
}

Mapping generic_batch(std::span<Sample> samples, CallContext& context) {
  return batch_fields(samples, generic_values, context.memory());
}

Value concat_values(std::string_view field, List values, std::span<const std::string_view> owners,
                    BufferAllocator& memory) {
  if (values.empty()) {
    return Value(std::move(values));
  }
  if (all_are<Tensor>(values)) {
    std::vector<const Tensor*> tensors;
    for (const Tensor* tensor : pointers<Tensor>(values)) {
      tensors.push_back(tensor);
    }
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
