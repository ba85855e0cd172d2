#include "wrappers/batching/batch_functions.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/error.h"
#include "wrappers/batching/field_values.h"
#include "wrappers/batching/tensor_batch.h"

namespace energon {

// --- Lists, stacks and joins ---

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

// --- Padding ---

namespace {

using TensorShapes = std::vector<std::vector<std::int64_t>>;

// Nullopt if the values are not tensors, or are scalars.
std::optional<TensorShapes> shapes_of(const List& values) {
  TensorShapes shapes;
  for (const Value& value : values) {
    const auto* const tensor = std::get_if<Tensor>(&value.base());
    if (tensor == nullptr || tensor->shape.empty()) {
      return std::nullopt;
    }
    shapes.push_back(tensor->shape);
  }
  return shapes;
}

// All have the same number of dimensions.
Tensor lengths_tensor(const TensorShapes& shapes, BufferAllocator& memory) {
  const std::size_t dimensions = shapes.at(0).size();
  std::vector<std::int64_t> shape{static_cast<std::int64_t>(shapes.size())};
  if (dimensions > 1) {
    shape.push_back(static_cast<std::int64_t>(dimensions));
  }
  NewTensor lengths = new_tensor(DType::kInt64, std::move(shape), memory);
  std::byte* to = lengths.bytes.data();
  for (const std::vector<std::int64_t>& sizes : shapes) {
    std::memcpy(to, sizes.data(), dimensions * sizeof(std::int64_t));
    to += dimensions * sizeof(std::int64_t);
  }
  return std::move(lengths.tensor);
}

// `fields` with each lengths field inserted after its field.
Mapping with_lengths(Mapping fields, std::vector<std::pair<std::string, Tensor>> lengths,
                     const std::string& prefix) {
  Mapping result;
  auto next = lengths.begin();
  for (auto& [name, value] : fields) {
    result.emplace_back(name, std::move(value));
    if (next == lengths.end() || next->first != name) {
      continue;
    }
    std::string of_lengths = name + "_lengths";
    if (std::ranges::any_of(fields, [&](const auto& field) { return field.first == of_lengths; })) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("the lengths of field '{0}{1}' would be field '{0}{2}', which the "
                              "samples already have: rename it, or disable lengths",
                              printable(prefix), printable(name), printable(of_lengths)));
    }
    result.emplace_back(std::move(of_lengths), std::move(next->second));
    ++next;
  }
  return result;
}

Mapping padded_mappings(std::span<Mapping* const> mappings,
                        std::span<const std::string_view> owners, const std::string& prefix,
                        bool has_lengths, const ValuesFunction& pad, BufferAllocator& memory) {
  std::vector<std::pair<std::string, Tensor>> lengths;
  const auto function = [&](const std::string& field, List values,
                            std::span<const std::string_view> whose, BufferAllocator& to) -> Value {
    const std::optional<TensorShapes> shapes = has_lengths ? shapes_of(values) : std::nullopt;
    Value value = pad(field, std::move(values), whose, to);
    if (shapes) {
      lengths.emplace_back(field.substr(prefix.size()), lengths_tensor(*shapes, to));
    }
    return value;
  };
  Mapping fields = batch_mappings(mappings, owners, prefix, function, memory);
  return has_lengths ? with_lengths(std::move(fields), std::move(lengths), prefix) : fields;
}

BatchFunction padded_batch(bool has_lengths, ValuesFunction pad) {
  return [has_lengths, pad = std::move(pad)](std::span<Sample> samples, CallContext& context) {
    const SampleMappings all(samples);
    return padded_mappings(all.mappings, all.owners, "", has_lengths, pad, context.memory());
  };
}

// Mappings field by field, so that each has its own lengths.
Value concat_padded(const PadOptions& options, const std::string& field, List values,
                    std::span<const std::string_view> owners, BufferAllocator& memory) {
  const auto pad = [&options](const std::string& name, List of_name,
                              std::span<const std::string_view> whose, BufferAllocator& to) {
    return concat_padded(options, name, std::move(of_name), whose, to);
  };
  if (!values.empty() && all_are<Mapping>(values)) {
    return Value(padded_mappings(pointers<Mapping>(values), owners, field + ".", options.lengths,
                                 pad, memory));
  }
  const auto join = [&options](const TensorGroup& group, BufferAllocator& to) -> Value {
    return concat_pad_tensors(group, options.value, to);
  };
  return generic_values(field, std::move(values), owners, join, memory);
}

}  // namespace

BatchFunction pad_stack_fields(PadOptions options) {
  return padded_batch(
      options.lengths,
      [options](const std::string& field, List values, std::span<const std::string_view> owners,
                BufferAllocator& memory) -> Value {
        const auto pad = [&options](const TensorGroup& group, BufferAllocator& to) -> Value {
          return pad_stack_tensors(group, options.value, to);
        };
        if (auto tensor = to_tensor(field, values, owners, pad, memory)) {
          return std::move(*tensor);
        }
        fail_kinds(field, values, owners, "only tensors and numbers can be padded and stacked");
      });
}

BatchFunction concat_pad_fields(PadOptions options) {
  return padded_batch(options.lengths,
                      [options](const std::string& field, List values,
                                std::span<const std::string_view> owners, BufferAllocator& memory) {
                        return concat_padded(options, field, std::move(values), owners, memory);
                      });
}

// --- Mixing ---

namespace {

// Sorts `samples` by leaf and returns the leaf of each.
std::vector<std::int64_t> sort_by_leaf(std::span<Sample> samples) {
  std::vector<std::pair<std::int64_t, std::size_t>> order;
  order.reserve(samples.size());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    order.emplace_back(leaf_of(samples[i].restore_key), i);
  }
  std::ranges::sort(order);
  std::vector<std::int64_t> leaves;
  std::vector<Sample> sorted;
  leaves.reserve(samples.size());
  sorted.reserve(samples.size());
  for (const auto& [leaf, position] : order) {
    leaves.push_back(leaf);
    sorted.push_back(std::move(samples[position]));
  }
  std::ranges::move(sorted, samples.begin());
  return leaves;
}

template <class Fields>
auto find_field(Fields& fields, const std::string& name) {
  return std::ranges::find(fields, name, &Mapping::value_type::first);
}

// Throws Error (kInvalidArgument) unless `other` has the fields of `batch`.
void check_fields(const LeafBatch& batch, const LeafBatch& other) {
  for (const auto& [name, value] : batch.fields) {
    if (find_field(other.fields, name) == other.fields.end()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("field '{}' is in the batch of leaf {}, but not in that of leaf {}; "
                              "pass a mix function that handles this",
                              printable(name), batch.leaf, other.leaf));
    }
  }
}

}  // namespace

Mapping concat_batches(std::span<LeafBatch> batches, CallContext& context) {
  Mapping fields;
  if (batches.empty()) {
    return fields;
  }
  std::vector<std::string> names;
  for (const LeafBatch& batch : batches) {
    names.push_back(fmt::format("leaf {}", batch.leaf));
    check_field_names(batch.fields, "the batch of " + names.back());
    check_fields(batches[0], batch);
    check_fields(batch, batches[0]);
  }
  const std::vector<std::string_view> owners(names.begin(), names.end());
  for (auto& [name, first] : batches[0].fields) {
    List values;
    values.push_back(std::move(first));
    for (LeafBatch& batch : batches.subspan(1)) {
      values.push_back(std::move(find_field(batch.fields, name)->second));
    }
    fields.emplace_back(name, concat_values(name, std::move(values), owners, context.memory()));
  }
  return fields;
}

BatchFunction mix_batch(MixOptions options) {
  if (!options.function || !options.mix ||
      std::ranges::any_of(options.leaf_functions, [](const auto& leaf) { return !leaf.second; })) {
    throw Error(ErrorCode::kInvalidArgument, "a mixed batch lacks one of its functions");
  }
  return [options = std::move(options)](std::span<Sample> samples, CallContext& context) {
    const std::vector<std::int64_t> leaves = sort_by_leaf(samples);
    std::vector<LeafBatch> batches;
    for (std::size_t begin = 0; begin < samples.size();) {
      const std::int64_t leaf = leaves[begin];
      const auto end = static_cast<std::size_t>(
          std::upper_bound(leaves.begin() + static_cast<std::ptrdiff_t>(begin), leaves.end(),
                           leaf) -
          leaves.begin());
      const auto own = options.leaf_functions.find(leaf);
      const BatchFunction& function =
          own == options.leaf_functions.end() ? options.function : own->second;
      batches.push_back(
          {leaf, function(samples.subspan(begin, end - begin), context), end - begin});
      begin = end;
    }
    return options.mix(batches, context);
  };
}

}  // namespace energon
