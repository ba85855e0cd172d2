#include "python/src/python_names.h"

#include <string>

namespace nb = nanobind;

namespace energon::python {
namespace {

// `found` keeps the type once its library is loaded.
bool is_exactly(nb::handle object, const char* module, const char* name, nb::handle& found) {
  if (!found.is_valid()) {
    found = loaded_attribute(module, name);
    found.inc_ref();
  }
  return reinterpret_cast<PyObject*>(Py_TYPE(object.ptr())) == found.ptr();
}

}  // namespace

nb::handle PackageAttribute::get() {
  if (found_ == nullptr) {
    const std::string module = std::string("energon_cpp.") + module_;
    found_ = nb::object(nb::module_::import_(module.c_str()).attr(name_)).release().ptr();
  }
  return found_;
}

nb::handle InternedName::get() {
  if (made_ == nullptr) {
    made_ = PyUnicode_InternFromString(text_);
    if (made_ == nullptr) {
      throw nb::python_error();
    }
  }
  return made_;
}

nb::handle loaded_attribute(const char* module, const char* name) {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* loaded = PyDict_GetItemString(modules, module);
  if (loaded == nullptr) {
    return {};
  }
  PyObject* found = PyObject_GetAttrString(loaded, name);
  if (found == nullptr) {
    PyErr_Clear();  // the module is being imported
    return {};
  }
  Py_DECREF(found);  // the module holds it
  return found;
}

bool is_numpy_array(nb::handle object) {
  static nb::handle type;
  return is_exactly(object, "numpy", "ndarray", type);
}

bool is_torch_tensor(nb::handle object) {
  static nb::handle type;
  return is_exactly(object, "torch", "Tensor", type);
}

bool is_numpy_scalar(nb::handle object) {
  static nb::handle type;
  if (!type.is_valid()) {
    type = loaded_attribute("numpy", "generic");
    type.inc_ref();
  }
  return type.is_valid() &&
         PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(type.ptr())) != 0;
}

}  // namespace energon::python
