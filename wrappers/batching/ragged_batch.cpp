#include "wrappers/batching/ragged_batch.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "wrappers/batching/field_values.h"

namespace energon {
namespace {

[[noreturn]] void fail_ragged(const std::string& what) {
  throw Error(ErrorCode::kInvalidArgument, what);
}

Value ragged_value(Tensor values, const std::vector<std::int64_t>& lengths,
                   BufferAllocator& memory) {
  NewTensor offsets =
      new_tensor(DType::kInt64, {static_cast<std::int64_t>(lengths.size()) + 1}, memory);
  std::int64_t offset = 0;
  std::byte* to = offsets.bytes.data();
  std::memcpy(to, &offset, sizeof(offset));
  for (const std::int64_t length : lengths) {
    offset += length;
    to += sizeof(offset);
    std::memcpy(to, &offset, sizeof(offset));
  }
  Mapping field;
  field.emplace_back("values", std::move(values));
  field.emplace_back("offsets", std::move(offsets.tensor));
  return field;
}

// Each sample's rows are those of its tensor.
Value ragged_of_tensors(const TensorGroup& group, BufferAllocator& memory) {
  Tensor values = concat_tensors(group, memory);
  std::vector<std::int64_t> lengths;
  for (const Tensor* tensor : group.tensors) {
    lengths.push_back(tensor->shape[0]);
  }
  return ragged_value(std::move(values), lengths, memory);
}

// For lists of tensors, each item is a row.
Value ragged_of_lists(std::string_view field, const List& lists,
                      std::span<const std::string_view> owners, BufferAllocator& memory) {
  std::vector<const Tensor*> tensors;
  std::vector<std::string_view> owner_of_item;
  std::vector<std::int64_t> lengths;
  for (std::size_t i = 0; i < lists.size(); ++i) {
    const auto& items = std::get<List>(lists[i].base());
    for (const Value& item : items) {
      tensors.push_back(&std::get<Tensor>(item.base()));
      owner_of_item.push_back(owners[i]);
    }
    lengths.push_back(static_cast<std::int64_t>(items.size()));
  }
  Tensor values = tensors.empty() ? new_tensor(DType::kUInt8, {0}, memory).tensor
                                  : stack_tensors({field, tensors, owner_of_item}, memory);
  return ragged_value(std::move(values), lengths, memory);
}

bool are_lists_of_tensors(const List& values) {
  return !values.empty() && all_are<List>(values) &&
         std::ranges::all_of(values, [](const Value& value) {
           return all_are<Tensor>(std::get<List>(value.base()));
         });
}

bool has_item(const List& lists) {
  return std::ranges::any_of(
      lists, [](const Value& value) { return !std::get<List>(value.base()).empty(); });
}

bool are_joinable(const List& values) {
  return !values.empty() && all_are<Tensor>(values) &&
         std::ranges::none_of(values, [](const Value& value) {
           return std::get<Tensor>(value.base()).shape.empty();
         });
}

// Makes the fields of one batch.
class RaggedFields {
 public:
  explicit RaggedFields(const std::vector<std::string>& wanted) : wanted_(wanted) {}

  Value operator()(const std::string& field, List values, std::span<const std::string_view> owners,
                   BufferAllocator& memory) {
    const bool is_wanted = std::ranges::find(wanted_, field) != wanted_.end();
    if (is_wanted) {
      found_.insert(field);
    }
    if (is_wanted || wanted_.empty()) {
      if (are_lists_of_tensors(values) && (is_wanted || has_item(values))) {
        return ragged_of_lists(field, values, owners, memory);
      }
      if (are_joinable(values)) {
        return *to_tensor(field, values, owners, ragged_of_tensors, memory);
      }
      if (is_wanted) {
        fail_kinds(field, values, owners,
                   "only tensors with a dimension and lists of tensors can be ragged");
      }
    }
    if (!values.empty() && all_are<Mapping>(values)) {
      return Value(
          batch_mappings(pointers<Mapping>(values), owners, field + ".", std::ref(*this), memory));
    }
    const auto pad = [](const TensorGroup& group, BufferAllocator& to) -> Value {
      return pad_stack_tensors(group, 0, to);
    };
    return generic_values(field, std::move(values), owners, pad, memory);
  }

  // All requested fields were found.
  void check_found(const Mapping& fields) const {
    for (const std::string& name : wanted_) {
      if (!found_.contains(name)) {
        std::vector<std::string> names;
        for (const auto& [field, value] : fields) {
          names.push_back(printable(field));
        }
        fail_ragged(fmt::format(
            "ragged_fields() is configured for '{}', which the samples lack; they have {}",
            printable(name), fmt::join(names, ", ")));
      }
    }
  }

 private:
  const std::vector<std::string>& wanted_;
  std::set<std::string> found_;
};

const Tensor& ragged_member(const Value& field, std::string_view name) {
  const auto* const members = std::get_if<Mapping>(&field.base());
  if (members == nullptr) {
    fail_ragged(fmt::format("expected a ragged field, a mapping of values and offsets, found {}",
                            describe(field)));
  }
  const auto found =
      std::ranges::find_if(*members, [&](const auto& entry) { return entry.first == name; });
  const Tensor* const tensor =
      found == members->end() ? nullptr : std::get_if<Tensor>(&found->second.base());
  if (tensor == nullptr) {
    fail_ragged(fmt::format("expected a tensor '{}' in a ragged field, found {}", name,
                            found == members->end() ? "none" : describe(found->second)));
  }
  if (tensor->data.size() != tensor_bytes(tensor->dtype, tensor->shape)) {
    fail_ragged(fmt::format("tensor '{}' of a ragged field is {} with {} bytes of data", name,
                            describe(Value(*tensor)), tensor->data.size()));
  }
  return *tensor;
}

std::int64_t offset_at(const Tensor& offsets, std::int64_t i) {
  std::int64_t offset = 0;
  std::memcpy(&offset, offsets.data.view.data() + static_cast<std::size_t>(i) * sizeof(offset),
              sizeof(offset));
  return offset;
}

void check_offsets(const Tensor& values, const Tensor& offsets) {
  if (values.shape.empty() || offsets.dtype != DType::kInt64 || offsets.shape.size() != 1 ||
      offsets.shape[0] < 1) {
    fail_ragged(fmt::format(
        "a ragged field has values with a dimension and offsets int64 (samples + 1); it has {} and "
        "{}",
        describe(Value(values)), describe(Value(offsets))));
  }
  std::int64_t before = 0;
  for (std::int64_t i = 0; i < offsets.shape[0]; ++i) {
    const std::int64_t offset = offset_at(offsets, i);
    const bool is_last = i + 1 == offsets.shape[0];
    if ((i == 0 && offset != 0) || offset < before || (is_last && offset != values.shape[0])) {
      fail_ragged(fmt::format(
          "offset {} of a ragged field is {} after {}; offsets must ascend from 0 to the {} rows",
          i, offset, before, values.shape[0]));
    }
    before = offset;
  }
}

}  // namespace

BatchFunction ragged_fields(RaggedOptions options) {
  return [options = std::move(options)](std::span<Sample> samples, CallContext& context) {
    RaggedFields make(options.fields);
    Mapping fields = batch_fields(samples, std::ref(make), context.memory());
    make.check_found(fields);
    return fields;
  };
}

Ragged Ragged::from(const Value& field) {
  Ragged ragged{.values = ragged_member(field, "values"),
                .offsets = ragged_member(field, "offsets")};
  check_offsets(ragged.values, ragged.offsets);
  return ragged;
}

std::int64_t Ragged::size() const { return offsets.shape[0] - 1; }

std::int64_t Ragged::begin(std::int64_t i) const {
  if (i < 0 || i >= size()) {
    fail_ragged(fmt::format("a ragged field of {} samples has no row {}", size(), i));
  }
  return offset_at(offsets, i);
}

std::int64_t Ragged::length(std::int64_t i) const {
  const std::int64_t first = begin(i);
  return offset_at(offsets, i + 1) - first;
}

Tensor Ragged::row(std::int64_t i) const {
  Tensor result{.dtype = values.dtype, .shape = values.shape, .data = values.data};
  result.shape[0] = 1;
  const std::size_t row_bytes = tensor_bytes(result.dtype, result.shape);
  result.shape[0] = length(i);
  result.data.view =
      values.data.view.subspan(static_cast<std::size_t>(begin(i)) * row_bytes,
                               static_cast<std::size_t>(result.shape[0]) * row_bytes);
  return result;
}

}  // namespace energon
