#include "python/src/python_to_value.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string_view.h>

#include <cstdint>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "energon/sample/buffer_allocator.h"
#include "python/src/buffer_object.h"
#include "python/src/marked_values.h"
#include "python/src/python_names.h"
#include "python/src/tensor_object.h"
#include "python/src/value_to_python.h"

namespace nb = nanobind;

namespace energon::python {

// --- Classes and the names of their fields ---

namespace {

bool has_fields(nb::handle object) {
  const nb::handle type = object.type();
  return PyObject_HasAttrString(type.ptr(), "__dataclass_fields__") != 0 ||
         (PyTuple_Check(object.ptr()) && PyObject_HasAttrString(type.ptr(), "_fields") != 0);
}

// "module:Name" for the class of `object`. Several classes that are defined in functions may share
// a name, so their address follows, which a fork keeps ("module:f.<locals>.Name@7f00").
std::string path_of_class(nb::handle object) {
  const nb::handle type = object.type();
  const nb::object module = type.attr("__module__");
  const nb::object name = type.attr("__qualname__");
  const auto text = nb::cast<std::string_view>(name);
  std::string path = fmt::format("{}:{}", nb::cast<std::string_view>(module), text);
  if (text.find("<locals>") != std::string_view::npos) {
    path += fmt::format("@{:x}", reinterpret_cast<std::uintptr_t>(type.ptr()));
  }
  return path;
}

// The parts of `object` if it can be rebuilt from them; nullopt for an object of another kind, or
// one that holds more or has its own pickling.
std::optional<ObjectParts> parts_of(nb::handle object) {
  static constinit PackageAttribute parts("_sample", "parts_of");
  if (!has_fields(object)) {
    return std::nullopt;
  }
  const nb::object found = parts(object);
  if (found.is_none()) {
    return std::nullopt;
  }
  return ObjectParts{.names = found[0], .has_undeclared = nb::cast<bool>(found[1])};
}

// The names of the fields of `object` that a native batch uses; null if it has no fields.
nb::object field_names(nb::handle object) {
  static constinit PackageAttribute names_of("_sample", "field_names");
  return has_fields(object) ? names_of(object) : nb::object();
}

// Whether an object like `object` can be made from its fields, or its entries for a dict.
bool is_made_of_fields(nb::handle object) {
  static constinit PackageAttribute check("_sample", "is_made_of_fields");
  return PyDict_CheckExact(object.ptr()) || nb::cast<bool>(check(object));
}

// A view of a str, valid as long as the str; nullopt if it contains lone surrogates, which UTF-8
// cannot encode.
std::optional<std::string_view> utf8_of_text(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return std::string_view(data, static_cast<std::size_t>(size));
}

}  // namespace

// --- FieldPath ---

namespace {

// Containers nested deeper than this are refused; the core sends 64 levels.
constexpr int kMostLevels = 60;

}  // namespace

void FieldPath::refuse(const std::string& what) const {
  std::string text = fmt::format("field '{}' cannot be held: {}", text_, what);
  if (PyErr_Occurred() != nullptr) {
    const nb::python_error cause;
    text += fmt::format(": {}", nb::str(cause.value()).c_str());
  }
  PyErr_SetString(PyExc_TypeError, text.c_str());
  throw nb::python_error();
}

FieldPath::Level::Level(FieldPath& path) : path_(path), size_(path.text_.size()) {
  if (path_.levels_ == kMostLevels) {
    path_.refuse(fmt::format("values are nested more than {} levels deep", kMostLevels));
  }
  ++path_.levels_;
}

FieldPath::Level::~Level() {
  path_.text_.resize(size_);
  --path_.levels_;
}

void FieldPath::Level::at(std::size_t index) {
  path_.text_.resize(size_);
  fmt::format_to(std::back_inserter(path_.text_), "[{}]", index);
}

void FieldPath::Level::at(std::string_view name) {
  path_.text_.resize(size_);
  if (size_ > 0) {
    path_.text_ += '.';
  }
  path_.text_ += name;
}

// --- ValueReader ---

namespace {

// The class that is rebuilt from the fields of `object`: its own class, or dict if that fails.
std::string class_of_fields(nb::handle object) {
  PyTypeObject* const type = Py_TYPE(object.ptr());
  const bool keeps_class =
      PyDict_Check(object.ptr())
          ? is_made_of_fields(object)
          : PyTuple_Check(object.ptr()) || type->tp_new == PyBaseObject_Type.tp_new;
  return keeps_class ? path_of_class(object) : std::string(marks::kDictClass);
}

// Whether `value`, a str or a list of str, equals `keys`.
bool are_keys(nb::handle value, const Keys& keys) {
  const auto is_key = [](nb::handle text, std::string_view key) {
    return PyUnicode_Check(text.ptr()) && text.equal(text_to_python(key));
  };
  if (!PyList_Check(value.ptr())) {
    return keys.size() == 1 && is_key(value, keys.front());
  }
  if (static_cast<std::size_t>(PyList_GET_SIZE(value.ptr())) != keys.size()) {
    return false;
  }
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (!is_key(PyList_GET_ITEM(value.ptr(), static_cast<Py_ssize_t>(i)), keys[i])) {
      return false;
    }
  }
  return true;
}

}  // namespace

Value ValueReader::read(nb::handle object, std::string_view field) {
  path_.start(field);
  return read(object);
}

Value ValueReader::read(nb::handle object) {
  PyObject* const o = object.ptr();
  if (o == Py_None) {
    return Null();
  }
  if (PyBool_Check(o)) {
    return o == Py_True;
  }
  if (PyUnicode_CheckExact(o)) {
    return read_text(object);
  }
  if (PyLong_CheckExact(o)) {
    return read_integer(object);
  }
  if (PyFloat_CheckExact(o)) {
    return PyFloat_AS_DOUBLE(o);
  }
  if (PyBytes_CheckExact(o)) {
    return copy(PyBytes_AS_STRING(o), static_cast<std::size_t>(PyBytes_GET_SIZE(o)));
  }
  if (is_buffer(object)) {
    const SharedBytes& bytes = bytes_of_buffer(object);
    return bytes.owner != nullptr ? bytes : copy(bytes.view.data(), bytes.size());
  }
  if (PyList_CheckExact(o)) {
    return read_list(object);
  }
  if (PyDict_CheckExact(o)) {
    return read_dict(object);
  }
  if (PyTuple_CheckExact(o)) {
    return read_tuple(object);
  }
  return read_other(object);
}

Value ValueReader::read_other(nb::handle object) {
  if (const auto* tensor =
          nb::isinstance<TensorObject>(object) ? nb::inst_ptr<TensorObject>(object) : nullptr) {
    return tensor->tensor();
  }
  if (is_numpy_array(object)) {
    if (auto array = read_array(object, marks::kNumpy)) {
      return std::move(*array);
    }
    return read_pickled(object);
  }
  if (is_torch_tensor(object)) {
    if (auto tensor = read_array(object, marks::kTorch)) {
      return std::move(*tensor);
    }
    return read_pickled(object);
  }
  if (const auto parts = parts_of(object)) {
    return read_instance(object, *parts);
  }
  if (!arrays_marked_ && is_numpy_scalar(object)) {
    return read_numpy_scalar(object);
  }
  return read_pickled(object);
}

Value ValueReader::read_numpy_scalar(nb::handle object) {
  const nb::object number = object.attr("item")();
  // Python has no number as wide as a longdouble, so its item is a longdouble again.
  return is_numpy_scalar(number) ? read_pickled(object) : read(number);
}

Value ValueReader::read_text(nb::handle object) {
  const auto text = utf8_of_text(object);
  return text ? Value(std::string(*text)) : read_pickled(object);
}

Value ValueReader::read_integer(nb::handle object) {
  int overflow = 0;
  const long long integer = PyLong_AsLongLongAndOverflow(object.ptr(), &overflow);
  if (overflow == 0) {
    return std::int64_t{integer};
  }
  PyObject* digits = PyObject_Str(object.ptr());
  if (digits == nullptr) {  // Python limits the number of digits
    PyErr_Clear();
    return read_pickled(object);
  }
  return BigInteger(std::string(*utf8_of_text(nb::steal(digits))));
}

Value ValueReader::read_list(nb::handle object) {
  FieldPath::Level level(path_);
  List list;
  // The list may change while its values are read, because they may run Python.
  for (Py_ssize_t i = 0; i < PyList_GET_SIZE(object.ptr()); ++i) {
    level.at(static_cast<std::size_t>(i));
    list.push_back(read(nb::borrow(PyList_GET_ITEM(object.ptr(), i))));
  }
  return list;
}

Value ValueReader::read_tuple(nb::handle object) {
  FieldPath::Level level(path_);
  Tuple tuple;
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(object.ptr()); ++i) {
    level.at(static_cast<std::size_t>(i));
    tuple.items.push_back(read(PyTuple_GET_ITEM(object.ptr(), i)));
  }
  return tuple;
}

Value ValueReader::read_dict(nb::handle object) {
  Mapping mapping;
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(object.ptr(), &position, &key, &value) != 0) {
    const auto name = PyUnicode_CheckExact(key) ? utf8_of_text(key) : std::nullopt;
    if (!name) {
      return read_items(object);
    }
  }
  FieldPath::Level level(path_);
  const nb::object copy = nb::steal(PyDict_Copy(object.ptr()));  // reading values may run Python
  position = 0;
  while (PyDict_Next(copy.ptr(), &position, &key, &value) != 0) {
    const std::string_view name = *utf8_of_text(key);
    level.at(name);
    mapping.emplace_back(name, read(value));
  }
  return mapping;
}

Value ValueReader::read_items(nb::handle object) {
  FieldPath::Level level(path_);
  List items;
  for (const nb::handle pair : nb::steal<nb::list>(PyDict_Items(object.ptr()))) {
    level.at(std::string_view(nb::repr(pair[0]).c_str()));
    List item;
    item.push_back(read(nb::object(pair[0])));
    item.push_back(read(nb::object(pair[1])));
    items.emplace_back(std::move(item));
  }
  return marks::sealed(marks::kDict, std::move(items));
}

void ValueReader::add_fields(nb::handle object, nb::handle names, Mapping& fields) {
  FieldPath::Level level(path_);
  for (const nb::handle name : names) {
    const std::string_view text = nb::cast<std::string_view>(name);
    PyObject* value = PyObject_GetAttr(object.ptr(), name.ptr());
    if (value == nullptr) {
      PyErr_Clear();  // a field that was never set stays unset
      continue;
    }
    const nb::object owned = nb::steal(value);
    level.at(text);
    fields.emplace_back(text, read(owned));
  }
}

Value ValueReader::read_instance(nb::handle object, const ObjectParts& parts) {
  Mapping fields;
  fields.emplace_back(marks::name(), path_of_class(object));
  add_fields(object, parts.names, fields);
  // Attributes that the class does not declare may be missing in the next sample.
  return parts.has_undeclared && !arrays_marked_
             ? marks::sealed(marks::kInstance, std::move(fields))
             : Value(std::move(fields));
}

Value ValueReader::read_pickled(nb::handle object) {
  static constinit PackageAttribute dump("_values", "dump");
  PyObject* result = PyObject_CallOneArg(dump.get().ptr(), object.ptr());
  if (result == nullptr) {
    path_.refuse(
        fmt::format("an object of type '{}' cannot be pickled", Py_TYPE(object.ptr())->tp_name));
  }
  const nb::object dumped = nb::steal(result);
  const nb::object data = dumped[0];
  Value pickle = marks::sealed(
      marks::kPickle,
      copy(PyBytes_AS_STRING(data.ptr()), static_cast<std::size_t>(PyBytes_GET_SIZE(data.ptr()))));
  List buffers;
  for (const nb::handle buffer : nb::object(dumped[1])) {
    Py_buffer view;
    if (PyObject_GetBuffer(buffer.ptr(), &view, PyBUF_SIMPLE) != 0) {
      throw nb::python_error();
    }
    buffers.emplace_back(copy(view.buf, static_cast<std::size_t>(view.len)));
    PyBuffer_Release(&view);
  }
  std::get<Tuple>(pickle.base()).items.emplace_back(std::move(buffers));
  return pickle;
}

std::optional<Value> ValueReader::read_array(nb::handle object, std::string_view mark) {
  std::optional<Tensor> tensor =
      mark == marks::kNumpy ? copy_numpy(object, memory_) : copy_torch(object, memory_);
  if (!tensor) {
    return std::nullopt;
  }
  if (!arrays_marked_) {
    return Value(std::move(*tensor));
  }
  return marks::sealed(mark, std::move(*tensor));
}

SharedBytes ValueReader::copy(const void* data, std::size_t size) {
  Buffer buffer = memory_.allocate(size);
  if (size > 0) {
    std::memcpy(buffer.bytes.data(), data, size);
  }
  return {.view = buffer.bytes.first(size), .owner = std::move(buffer.owner)};
}

Mapping ValueReader::read_fields(nb::handle object, const Keys& keys) {
  path_.start("");
  Mapping fields;
  // A batch function of the core takes the fields, but the trainer gets the object unchanged.
  const bool is_whole = arrays_marked_;
  if (PyDict_Check(object.ptr()) && (!is_whole || is_made_of_fields(object))) {
    fields.emplace_back(marks::name(), class_of_fields(object));
    add_items(object, keys, fields);
    return fields;
  }
  const std::optional<ObjectParts> parts = is_whole ? parts_of(object) : std::nullopt;
  const nb::object names = parts ? parts->names : is_whole ? nb::object() : field_names(object);
  if (names.is_valid()) {
    fields.emplace_back(marks::name(), class_of_fields(object));
    add_own_fields(object, names, keys, fields);
  } else {
    fields.emplace_back(marks::kWhole, read(object, "the result"));
  }
  return fields;
}

void ValueReader::add_own_fields(nb::handle object, nb::handle names, const Keys& keys,
                                 Mapping& fields) {
  static constinit PackageAttribute item("_sample", "Item");
  const bool is_item = nb::isinstance(object, item.get());
  nb::list own;
  for (const nb::handle name : names) {
    const auto text = nb::cast<std::string_view>(name);
    if (!marks::is_origin(text)) {
      own.append(name);
    } else if (text == marks::kKey) {
      // Not through __getattr__, which would get the key from the library.
      const nb::object key = nb::steal(PyObject_GenericGetAttr(object.ptr(), name.ptr()));
      PyErr_Clear();
      fields.emplace_back(text, key.is_valid() ? read_key(key, keys) : Value(Null()));
    } else if (!is_item) {
      fields.emplace_back(text, Null());
    }
  }
  add_fields(object, own, fields);
}

// Null if the function did not set `key`, or if it equals the keys of the item.
Value ValueReader::read_key(nb::handle key, const Keys& keys) {
  const bool is_unset = key.is_none() || (PyUnicode_Check(key.ptr()) && nb::len(key) == 0) ||
                        (PyList_Check(key.ptr()) && nb::len(key) == 0);
  return is_unset || are_keys(key, keys) ? Value(Null()) : read(key, marks::kKey);
}

void ValueReader::add_items(nb::handle dict, const Keys& keys, Mapping& fields) {
  FieldPath::Level level(path_);
  const nb::object copy = nb::steal(PyDict_Copy(dict.ptr()));  // reading values may run Python
  PyObject* key = nullptr;
  PyObject* value = nullptr;
  Py_ssize_t position = 0;
  while (PyDict_Next(copy.ptr(), &position, &key, &value) != 0) {
    const auto name = PyUnicode_Check(key) ? utf8_of_text(key) : std::nullopt;
    if (!name) {
      path_.start(nb::repr(key).c_str());
      path_.refuse("the name of a field must be a string");
    }
    level.at(*name);
    // Keeps the entry without its value, which the stage sets.
    if (*name == marks::kKey) {
      fields.emplace_back(*name, read_key(value, keys));
    } else {
      fields.emplace_back(*name, marks::is_origin(*name) ? Value(Null()) : read(value));
    }
  }
}

}  // namespace energon::python
