#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "wrappers/batching/batch_functions.h"
#include "wrappers/batching/field_values.h"

namespace energon {
namespace {

using TensorShapes = std::vector<std::vector<std::int64_t>>;

// Nothing, if the values are not tensors, or scalars.
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

// `fields` with the lengths behind the fields that they are of.
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
                              "samples have already: rename it, or leave lengths out",
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

}  // namespace energon
