#include "wrappers/types/typed_fields.h"

#include <utility>

#include <fmt/format.h>

#include "io/error.h"
#include "wrappers/types/float_tensor.h"

namespace energon {

// Adds type, field and key to an Error.
template <class Read>
auto TypedFields::of_field(std::string_view name, Read read) const {
  try {
    return read();
  } catch (const Error& error) {
    ErrorContext context = error.context();
    if (!sample_.keys.empty()) {
      context.sample_key = key();
    }
    throw Error(error.code(),
                fmt::format("field '{}' of {}: {}", name, class_name(type_), error.message()),
                std::move(context));
  }
}

void TypedFields::refuse(std::string_view name, std::string_view expected) const {
  of_field(name, [&] {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("it holds {}, expected {}", describe(sample_.at(name)), expected));
  });
  throw Error(ErrorCode::kInternal, "not reached");
}

bool TypedFields::has(std::string_view name) const {
  const Value* const value = sample_.find(name);
  return value != nullptr && !std::holds_alternative<Null>(value->base());
}

std::string TypedFields::key() const {
  return sample_.keys.empty() ? "" : std::string(sample_.keys.front());
}

Tensor TypedFields::tensor(std::string_view name) const {
  return of_field(name, [&] { return sample_.tensor(name); });
}

std::vector<Tensor> TypedFields::tensors(std::string_view name) const {
  std::vector<Tensor> result;
  for (const Value& item : list(name)) {
    const auto* const tensor = std::get_if<Tensor>(&item.base());
    if (tensor == nullptr) {
      refuse(name,
             fmt::format("a list of images, but item {} is {}", result.size(), describe(item)));
    }
    result.push_back(*tensor);
  }
  return result;
}

std::string TypedFields::text(std::string_view name) const {
  return of_field(name, [&] { return std::string(sample_.text(name)); });
}

std::vector<std::string> TypedFields::texts(std::string_view name) const {
  return of_field(name, [&] {
    const std::vector<std::string_view> views = sample_.text_list(name);
    return std::vector<std::string>(views.begin(), views.end());
  });
}

SharedBytes TypedFields::bytes(std::string_view name) const {
  return of_field(name, [&] { return sample_.bytes(name); });
}

const List& TypedFields::list(std::string_view name) const {
  return *of_field(name, [&] { return &sample_.list(name); });
}

std::optional<std::string> TypedFields::optional_text(std::string_view name) const {
  return has(name) ? std::optional(text(name)) : std::nullopt;
}

std::optional<std::vector<std::string>> TypedFields::optional_texts(std::string_view name) const {
  return has(name) ? std::optional(texts(name)) : std::nullopt;
}

std::optional<std::int64_t> TypedFields::optional_integer(std::string_view name) const {
  if (!has(name)) {
    return std::nullopt;
  }
  return of_field(name, [&] { return sample_.integer(name); });
}

std::optional<std::vector<std::int64_t>> TypedFields::optional_integers(
    std::string_view name) const {
  if (!has(name)) {
    return std::nullopt;
  }
  std::vector<std::int64_t> result;
  for (const Value& item : list(name)) {
    const auto* const integer = std::get_if<std::int64_t>(&item.base());
    if (integer == nullptr) {
      refuse(name, fmt::format("a list of whole numbers, but item {} is {}", result.size(),
                               describe(item)));
    }
    result.push_back(*integer);
  }
  return result;
}

std::optional<SharedBytes> TypedFields::optional_bytes(std::string_view name) const {
  return has(name) ? std::optional(bytes(name)) : std::nullopt;
}

std::optional<Tensor> TypedFields::optional_floats(std::string_view name,
                                                   std::size_t dimensions) const {
  if (!has(name)) {
    return std::nullopt;
  }
  std::optional<Tensor> tensor = float_tensor(sample_.at(name), dimensions, memory_);
  if (!tensor) {
    refuse(name,
           dimensions == 1 ? "a list of numbers" : "a list of lists of numbers, all of one length");
  }
  return tensor;
}

std::optional<Tensor> TypedFields::optional_boxes(std::string_view name) const {
  constexpr std::int64_t kWithoutConfidence = 4;
  constexpr std::int64_t kWithConfidence = 5;
  std::optional<Tensor> boxes = optional_floats(name, 2);
  if (!boxes) {
    return std::nullopt;
  }
  std::int64_t& numbers = boxes->shape[1];
  if (boxes->shape[0] == 0 && numbers == 0) {
    numbers = kWithoutConfidence;  // an empty list
  }
  if (numbers != kWithoutConfidence && numbers != kWithConfidence) {
    refuse(name, fmt::format("boxes of x, y, width, height[, confidence], got {} numbers a box",
                             numbers));
  }
  return boxes;
}

}  // namespace energon
