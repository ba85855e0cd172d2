// Reads the fields of a typed sample into C++ types, and writes them back. Private to this folder.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"
#include "io/recipe/typed_samples.h"

namespace energon {

/// The fields of one sample. All functions throw Error (kNotFound if a required field is missing,
/// kInvalidArgument if it holds something else) with the type, the field, what it holds and the
/// key. An optional field is absent if it is missing or Null.
class TypedFields {
 public:
  /// Both must outlive the object. Tensors that are converted lie in `memory`.
  TypedFields(SampleType type, const Sample& sample, BufferAllocator& memory)
      : type_(type), sample_(sample), memory_(memory) {}

  std::string key() const;

  Tensor tensor(std::string_view name) const;
  std::vector<Tensor> tensors(std::string_view name) const;
  std::string text(std::string_view name) const;
  std::vector<std::string> texts(std::string_view name) const;
  SharedBytes bytes(std::string_view name) const;
  const List& list(std::string_view name) const;

  std::optional<std::string> optional_text(std::string_view name) const;
  std::optional<std::vector<std::string>> optional_texts(std::string_view name) const;
  std::optional<std::int64_t> optional_integer(std::string_view name) const;
  std::optional<std::vector<std::int64_t>> optional_integers(std::string_view name) const;
  std::optional<SharedBytes> optional_bytes(std::string_view name) const;
  /// float32 with this number of dimensions, from a tensor of numbers or from lists of them.
  std::optional<Tensor> optional_floats(std::string_view name, std::size_t dimensions) const;
  /// float32 (N, 4 or 5).
  std::optional<Tensor> optional_boxes(std::string_view name) const;

  /// True if there is a value that is not Null.
  bool has(std::string_view name) const;
  /// Throws the Error for a field that holds something else than `expected`.
  [[noreturn]] void refuse(std::string_view name, std::string_view expected) const;

 private:
  template <class Read>
  auto of_field(std::string_view name, Read read) const;

  SampleType type_;
  const Sample& sample_;
  BufferAllocator& memory_;
};

/// Adds the field, if there is a value.
template <class Field>
void set_if(Sample& sample, std::string_view name, const std::optional<Field>& value) {
  if (value) {
    sample.set(name, *value);
  }
}

/// A list of the items of `values`.
template <class Item>
List list_of(const std::vector<Item>& values) {
  return List(values.begin(), values.end());
}
template <class Item>
void set_if(Sample& sample, std::string_view name, const std::optional<std::vector<Item>>& values) {
  if (values) {
    sample.set(name, list_of(*values));
  }
}

}  // namespace energon
