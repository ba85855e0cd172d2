#include "wrappers/batching/field_values.h"

#include <cstring>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"

namespace energon {
namespace {

[[noreturn]] void fail_missing(std::string_view field, std::string_view owner) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("part '{}' is missing in sample '{}' of the batch; pass Batch a function "
                          "that handles this, or exclude the sample",
                          printable(field), printable(owner)));
}

[[noreturn]] void fail_twice(std::string_view field, std::string_view owner) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field '{}' occurs twice in sample '{}': give each field a unique name",
                          printable(field), printable(owner)));
}

// One list per name, in the order of first appearance; `prefix` is written before names in errors.
Mapping gather(std::span<Mapping* const> mappings, std::span<const std::string_view> owners,
               const std::string& prefix) {
  Mapping fields;
  for (std::size_t i = 0; i < mappings.size(); ++i) {
    for (std::size_t k = 0; k < mappings[i]->size(); ++k) {
      auto& [name, value] = (*mappings[i])[k];
      // Samples of one shard mostly have the same parts in the same order, so check the same
      // position first.
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

std::string_view kind_of(const Value& value) {
  constexpr std::string_view kKinds[] = {"raw bytes", "a string",  "an integer", "a number",
                                         "a tensor",  "a list",    "a mapping",  "lazy bytes",
                                         "null",      "a boolean", "a tuple",    "a big integer"};
  static_assert(std::size(kKinds) == std::variant_size_v<Value::Base>);
  return kKinds[value.base().index()];
}

}  // namespace

Mapping batch_mappings(std::span<Mapping* const> mappings, std::span<const std::string_view> owners,
                       const std::string& prefix, const ValuesFunction& function,
                       BufferAllocator& memory) {
  Mapping fields = gather(mappings, owners, prefix);
  for (auto& [name, value] : fields) {
    value = function(prefix + name, std::move(std::get<List>(value.base())), owners, memory);
  }
  return fields;
}

SampleMappings::SampleMappings(std::span<Sample> samples) {
  mappings.reserve(samples.size());
  owners.reserve(samples.size());
  for (Sample& sample : samples) {
    mappings.push_back(&sample.fields);
    owners.push_back(sample.keys.empty() ? std::string_view() : sample.keys.front());
  }
}

Mapping batch_fields(std::span<Sample> samples, const ValuesFunction& function,
                     BufferAllocator& memory) {
  const SampleMappings all(samples);
  return batch_mappings(all.mappings, all.owners, "", function, memory);
}

std::optional<Value> to_tensor(std::string_view field, List& values,
                               std::span<const std::string_view> owners,
                               const TensorsFunction& function, BufferAllocator& memory) {
  if (values.empty()) {
    return std::nullopt;
  }
  if (all_are<Tensor>(values)) {
    const std::vector<Tensor*> found = pointers<Tensor>(values);
    const std::vector<const Tensor*> tensors(found.begin(), found.end());
    return function(TensorGroup{field, tensors, owners}, memory);
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

Value generic_values(const std::string& field, List values,
                     std::span<const std::string_view> owners, const TensorsFunction& function,
                     BufferAllocator& memory) {
  if (auto tensor = to_tensor(field, values, owners, function, memory)) {
    return std::move(*tensor);
  }
  if (!values.empty() && all_are<Mapping>(values)) {
    const auto inner = [&function](const std::string& name, List of_name,
                                   std::span<const std::string_view> whose, BufferAllocator& to) {
      return generic_values(name, std::move(of_name), whose, function, to);
    };
    return Value(batch_mappings(pointers<Mapping>(values), owners, field + ".", inner, memory));
  }
  return Value(std::move(values));
}

void fail_kinds(std::string_view field, const List& values,
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

}  // namespace energon
