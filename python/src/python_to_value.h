// Values of Python, made into values of the core.
//
// Texts, numbers, truth values, None, bytes, lists, tuples and dicts with text keys are values of
// the core. Arrays of NumPy and tensors of torch are copied once, into the memory of the batch.
// Other dicts, dataclasses and named tuples are marked (marked_values.h); the rest is pickled
// with protocol 5, its buffers beside it.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "energon/sample/buffer_allocator.h"
#include "energon/sample/sample.h"

namespace energon::python {

/// Where in a nested value a reader is, for messages: "meta.items[3].lock".
class FieldPath {
 public:
  class Level;

  /// Begins at the field `name`.
  void start(std::string_view name) { text_ = name; }

  /// Throws TypeError (nb::python_error): the field cannot be held, because of `what` and, if one
  /// is set, the exception of Python.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string text_;
  int levels_ = 0;
};

/// A container, while its values are read.
class FieldPath::Level {
 public:
  /// Refuses it if it is nested too deeply.
  explicit Level(FieldPath& path);
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  // What is read next.
  void at(std::size_t index);
  void at(std::string_view name);

 private:
  FieldPath& path_;
  const std::size_t size_;
};

/// What makes up an object with fields: a dataclass or a named tuple.
struct ObjectParts {
  nanobind::object names;       ///< of its fields and other attributes
  bool has_undeclared = false;  ///< attributes that its class does not declare
};

/// For one call. Requires: the GIL.
class ValueReader {
 public:
  /// `memory` is borrowed. `arrays_marked`: arrays and tensors are marked, so that the trainer gets
  /// what the function returned; false where a function of the core takes the values.
  ValueReader(BufferAllocator& memory, bool arrays_marked)
      : memory_(memory), arrays_marked_(arrays_marked) {}

  /// Throws TypeError (nb::python_error) that names the field for what cannot be held.
  Value read(nanobind::handle object, std::string_view field);

  /// The fields of what a function returned: a dict, a dataclass, a Sample or Batch, a named tuple.
  /// Anything else is the field marks::kWhole, and so is an object whose fields are not all of it
  /// if it goes to the trainer. The values of `__restore_key__`, `__subflavors__` and
  /// `__sources__` are null: the stage sets them. So is `__key__`, unless it is set and differs
  /// from `keys`, those of the item.
  Mapping read_fields(nanobind::handle object, const Keys& keys);

 private:
  Value read(nanobind::handle object);
  Value read_other(nanobind::handle object);
  Value read_integer(nanobind::handle object);
  Value read_text(nanobind::handle object);
  Value read_list(nanobind::handle object);
  Value read_tuple(nanobind::handle object);
  Value read_dict(nanobind::handle object);
  Value read_items(nanobind::handle object);
  Value read_instance(nanobind::handle object, const ObjectParts& parts);
  Value read_numpy_scalar(nanobind::handle object);
  Value read_pickled(nanobind::handle object);
  std::optional<Value> read_array(nanobind::handle object, std::string_view mark);
  SharedBytes copy(const void* data, std::size_t size);
  void add_items(nanobind::handle dict, const Keys& keys, Mapping& fields);
  void add_fields(nanobind::handle object, nanobind::handle names, Mapping& fields);
  void add_own_fields(nanobind::handle object, nanobind::handle names, const Keys& keys,
                      Mapping& fields);
  Value read_key(nanobind::handle key, const Keys& keys);

  BufferAllocator& memory_;
  const bool arrays_marked_;
  FieldPath path_;  // where the value being read is
};

}  // namespace energon::python
