// Python names that C++ uses: functions and classes of the package, and types of libraries that are
// loaded. Nothing here imports torch or numpy.

#pragma once

#include <Python.h>
#include <nanobind/nanobind.h>

#include <utility>

namespace energon::python {

/// The attribute `name` of the module `module` of the package, such as ("_values", "load"), looked
/// up at the first use and kept. Designed for `static constinit`: a static that is initialized when
/// it is first reached would hold a lock while Python may release the GIL. All calls require the
/// GIL.
class PackageAttribute {
 public:
  constexpr PackageAttribute(const char* module, const char* name) : module_(module), name_(name) {}

  /// Borrowed, for the life of the process. Throws nb::python_error.
  nanobind::handle get();

  template <class... Arguments>
  nanobind::object operator()(Arguments&&... arguments) {
    return get()(std::forward<Arguments>(arguments)...);
  }

 private:
  const char* const module_;
  const char* const name_;
  PyObject* found_ = nullptr;
};

/// A name that is used often, as an interned Python string, made at the first use and kept, as
/// above. Requires the GIL.
class InternedName {
 public:
  constexpr explicit InternedName(const char* text) : text_(text) {}

  /// Borrowed, for the life of the process. Throws nb::python_error.
  nanobind::handle get();

 private:
  const char* const text_;
  PyObject* made_ = nullptr;
};

/// The attribute `name` of the module `module` if that module is loaded, else null. Borrowed.
nanobind::handle loaded_attribute(const char* module, const char* name);

/// Whether `object` is a numpy.ndarray, or a torch.Tensor, and not of a subclass.
bool is_numpy_array(nanobind::handle object);
bool is_torch_tensor(nanobind::handle object);
/// Whether `object` is a NumPy scalar, such as numpy.float32(1).
bool is_numpy_scalar(nanobind::handle object);

}  // namespace energon::python
