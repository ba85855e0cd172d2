// Converts Python values to values of the core.
//
// Strings, numbers, booleans, None, bytes, lists, tuples and dicts with string keys are values of
// the core. NumPy arrays and torch tensors are copied once, into the memory of the batch. Other
// dicts, dataclasses and named tuples are marked (marked_values.h). All other values are pickled
// with protocol 5 and out-of-band buffers.

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

/// The place of a reader in a nested value, for messages: "meta.items[3].lock".
class FieldPath {
 public:
  class Level;

  /// Begins at the field `name`.
  void start(std::string_view name) { text_ = name; }

  /// Throws TypeError (nb::python_error): the field cannot be held, with the reason `what` and the
  /// current Python exception, if any.
  [[noreturn]] void refuse(const std::string& what) const;

 private:
  std::string text_;
  int levels_ = 0;
};

/// A container whose values are being read.
class FieldPath::Level {
 public:
  /// Refuses a container that is nested too deeply.
  explicit Level(FieldPath& path);
  ~Level();
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

  // Set the value to be read next.
  void at(std::size_t index);
  void at(std::string_view name);

 private:
  FieldPath& path_;
  const std::size_t size_;
};

/// The parts of an object with fields: a dataclass or a named tuple.
struct ObjectParts {
  nanobind::object names;       ///< names of its fields and other attributes
  bool has_undeclared = false;  ///< whether it has attributes that its class does not declare
};

/// Reads the values of one call. Requires: the GIL.
class ValueReader {
 public:
  /// `memory` is borrowed. With `arrays_marked`, arrays and tensors are marked, so that the trainer
  /// receives the type that the function returned. It is false if a function of the core takes the
  /// values.
  ValueReader(BufferAllocator& memory, bool arrays_marked)
      : memory_(memory), arrays_marked_(arrays_marked) {}

  /// For a value that cannot be held, throws TypeError (nb::python_error) that names the field.
  Value read(nanobind::handle object, std::string_view field);

  /// The fields of a function's result: a dict, a dataclass, a Sample or Batch, a named tuple. Any
  /// other result becomes the field marks::kWhole, as does an object for the trainer that cannot be
  /// rebuilt from its fields. The values of `__restore_key__`, `__subflavors__` and `__sources__`
  /// are null, because the stage sets them. `__key__` is null, too, unless it is set and differs
  /// from `keys`, the keys of the item.
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
  FieldPath path_;  // the place of the value being read
};

}  // namespace energon::python
