#include "python/src/class_path.h"

#include <nanobind/stl/string_view.h>

#include <cstdint>

#include <fmt/format.h>

#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

bool has_fields(nb::handle object) {
  const nb::handle type = object.type();
  return PyObject_HasAttrString(type.ptr(), "__dataclass_fields__") != 0 ||
         (PyTuple_Check(object.ptr()) && PyObject_HasAttrString(type.ptr(), "_fields") != 0);
}

}  // namespace

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

nb::object field_names(nb::handle object) {
  static constinit PackageAttribute names_of("_sample", "field_names");
  return has_fields(object) ? names_of(object) : nb::object();
}

bool is_made_of_fields(nb::handle object) {
  static constinit PackageAttribute check("_sample", "is_made_of_fields");
  return PyDict_CheckExact(object.ptr()) || nb::cast<bool>(check(object));
}

std::optional<std::string_view> utf8_of_text(nb::handle text) {
  Py_ssize_t size = 0;
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (data == nullptr) {
    PyErr_Clear();
    return std::nullopt;
  }
  return std::string_view(data, static_cast<std::size_t>(size));
}

}  // namespace energon::python
