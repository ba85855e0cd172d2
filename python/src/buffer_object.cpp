#include "python/src/buffer_object.h"

#include <nanobind/stl/string.h>

#include <memory>
#include <string>

#include <fmt/format.h>

#include "python/src/interpreter.h"
#include "python/src/module.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const auto& object = *nb::inst_ptr<BufferObject>(self);
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(object.bytes.view.data()),
                           static_cast<Py_ssize_t>(object.bytes.size()), object.writable ? 0 : 1,
                           flags);
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

nb::bytes copy_of(const BufferObject& self) {
  return nb::bytes(self.bytes.text().data(), self.bytes.size());
}

nb::object memory_of(nb::handle self) {
  nb::object view = nb::steal(PyMemoryView_FromObject(self.ptr()));
  if (!view.is_valid()) {
    throw nb::python_error();
  }
  return view;
}

nb::object item_of(nb::handle self, nb::handle index) {
  nb::object item = memory_of(self)[index];
  return PyLong_Check(item.ptr()) ? item : nb::bytes(item);
}

bool is_equal(const BufferObject& self, nb::handle other) {
  Py_buffer view;
  if (PyObject_GetBuffer(other.ptr(), &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    return false;
  }
  const bool equal = self.bytes.text() == std::string_view(static_cast<const char*>(view.buf),
                                                           static_cast<std::size_t>(view.len));
  PyBuffer_Release(&view);
  return equal;
}

}  // namespace

nb::object bytes_to_python(const SharedBytes& bytes) {
  if (bytes.size() <= kLargestCopiedPart) {
    return nb::bytes(bytes.text().data(), bytes.size());
  }
  return nb::cast(BufferObject{.bytes = bytes});
}

SharedBytes bytes_of_python(nb::handle object) {
  if (nb::isinstance<BufferObject>(object)) {
    return nb::cast<const BufferObject&>(object).bytes;
  }
  if (PyBytes_Check(object.ptr())) {
    return {.view = as_bytes({PyBytes_AS_STRING(object.ptr()),
                              static_cast<std::size_t>(PyBytes_GET_SIZE(object.ptr()))}),
            .owner = std::make_shared<const OwnedObject>(object.ptr())};
  }
  const nb::object copy = nb::steal(PyBytes_FromObject(memory_of(object).ptr()));
  if (!copy.is_valid()) {
    throw nb::python_error();
  }
  return bytes_of_python(copy);
}

void bind_buffer(nb::module_& module) {
  nb::class_<BufferObject>(module, "Buffer", nb::type_slots(buffer_slots),
                           "The bytes of a large part, in the memory of their batch. Supports the "
                           "buffer protocol. bytes(buffer) makes a copy.")
      .def("__len__", [](const BufferObject& self) { return self.bytes.size(); })
      .def("__bytes__", copy_of)
      .def("__getitem__", item_of, nb::arg("index"),
           nb::sig("def __getitem__(self, index: int | slice) -> int | bytes"))
      .def("__eq__", is_equal, nb::arg("other"),
           nb::sig("def __eq__(self, other: object, /) -> bool"))
      .def("__hash__", [](const BufferObject& self) { return nb::hash(copy_of(self)); })
      .def(
          "decode",
          [](const BufferObject& self, const std::string& encoding, const std::string& errors) {
            return copy_of(self).attr("decode")(encoding, errors);
          },
          nb::arg("encoding") = "utf-8", nb::arg("errors") = "strict",
          nb::sig("def decode(self, encoding: str = 'utf-8', errors: str = 'strict') -> str"))
      .def("__repr__",
           [](const BufferObject& self) {
             return fmt::format("Buffer({} bytes)", self.bytes.size());
           })
      .def("__reduce__", [](const BufferObject& self) {
        return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyBytes_Type)),
                              nb::make_tuple(copy_of(self)));
      });
}

}  // namespace energon::python
