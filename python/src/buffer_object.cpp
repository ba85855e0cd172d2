#include "python/src/buffer_object.h"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "python/src/interpreter.h"
#include "python/src/module.h"

namespace nb = nanobind;

namespace energon::python {

// The type is not nanobind's, because most parts are small and a loop makes many of them: this
// object is one allocation, as fast as that of `bytes`.
namespace {

struct BufferObject {
  PyObject head;
  SharedBytes bytes;    // has no owner if it is a view of the copy that follows this object
  Py_hash_t hash = -1;  // -1 if not yet computed
  bool writable = false;
};

PyTypeObject* buffer_type = nullptr;

BufferObject* buffer_in(PyObject* object) { return reinterpret_cast<BufferObject*>(object); }

const SharedBytes& bytes_in(PyObject* object) { return buffer_in(object)->bytes; }

// A Buffer, with `room` bytes after the object. Null with MemoryError.
PyObject* new_buffer(const SharedBytes& bytes, std::size_t room) {
  void* const memory = PyObject_Malloc(sizeof(BufferObject) + room);
  if (memory == nullptr) {
    return PyErr_NoMemory();
  }
  auto* const buffer = new (memory) BufferObject;
  buffer->bytes = bytes;
  return PyObject_Init(reinterpret_cast<PyObject*>(buffer), buffer_type);
}

// A Buffer with a copy of the bytes. Null with MemoryError.
PyObject* new_copy(std::string_view text) {
  PyObject* const object = new_buffer({}, text.size() + 1);
  if (object != nullptr) {
    auto* const data = reinterpret_cast<char*>(buffer_in(object) + 1);
    std::copy(text.begin(), text.end(), data);
    data[text.size()] = '\0';
    buffer_in(object)->bytes.view = as_bytes({data, text.size()});
  }
  return object;
}

nb::object checked(PyObject* created) {
  if (created == nullptr) {
    throw nb::python_error();
  }
  return nb::steal(created);
}

void free_buffer(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  buffer_in(self)->~BufferObject();
  PyObject_Free(self);
  Py_DECREF(type);
}

PyObject* bytes_from(std::string_view text) {
  return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

nb::object memory_of(nb::handle object) { return checked(PyMemoryView_FromObject(object.ptr())); }

PyObject* make_buffer(PyTypeObject* /*type*/, PyObject* arguments, PyObject* names) {
  Py_buffer view = {};
  static const char* const keywords[] = {"", nullptr};
  if (PyArg_ParseTupleAndKeywords(arguments, names, "y*:Buffer", const_cast<char**>(keywords),
                                  &view) == 0) {
    return nullptr;
  }
  PyObject* const made =
      new_copy({static_cast<const char*>(view.buf), static_cast<std::size_t>(view.len)});
  PyBuffer_Release(&view);
  return made;
}

// --- As bytes: the buffer protocol, a sequence, comparisons ---

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  const SharedBytes& bytes = bytes_in(self);
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.view.data()),
                           static_cast<Py_ssize_t>(bytes.size()), buffer_in(self)->writable ? 0 : 1,
                           flags);
}

Py_ssize_t size_of_buffer(PyObject* self) { return static_cast<Py_ssize_t>(bytes_in(self).size()); }

PyObject* number_at(PyObject* self, Py_ssize_t index) {
  const std::string_view text = bytes_in(self).text();
  if (index < 0 || index >= static_cast<Py_ssize_t>(text.size())) {
    PyErr_SetString(PyExc_IndexError, "index out of range");
    return nullptr;
  }
  return PyLong_FromLong(static_cast<unsigned char>(text[static_cast<std::size_t>(index)]));
}

PyObject* item_at(PyObject* self, PyObject* index) {
  if (PyIndex_Check(index)) {
    Py_ssize_t number = PyNumber_AsSsize_t(index, PyExc_IndexError);
    if (number == -1 && PyErr_Occurred() != nullptr) {
      return nullptr;
    }
    return number_at(self, number < 0 ? number + size_of_buffer(self) : number);
  }
  PyObject* const view = PyMemoryView_FromObject(self);
  PyObject* const slice = view == nullptr ? nullptr : PyObject_GetItem(view, index);
  PyObject* const copy = slice == nullptr ? nullptr : PyBytes_FromObject(slice);
  Py_XDECREF(slice);
  Py_XDECREF(view);
  return copy;
}

// The result of `function` for a copy of `self` as bytes.
template <class Function>
PyObject* with_copy(PyObject* self, const Function& function) {
  PyObject* const copy = bytes_from(bytes_in(self).text());
  if (copy == nullptr) {
    return nullptr;
  }
  PyObject* const result = function(copy);
  Py_DECREF(copy);
  return result;
}

PyObject* concatenate(PyObject* self, PyObject* other) {
  return with_copy(self, [&](PyObject* copy) { return PySequence_Concat(copy, other); });
}

PyObject* repeat(PyObject* self, Py_ssize_t count) {
  return with_copy(self, [&](PyObject* copy) { return PySequence_Repeat(copy, count); });
}

int contains(PyObject* self, PyObject* part) {
  PyObject* const copy = bytes_from(bytes_in(self).text());
  const int result = copy == nullptr ? -1 : PySequence_Contains(copy, part);
  Py_XDECREF(copy);
  return result;
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  Py_buffer view = {};
  if (PyObject_GetBuffer(other, &view, PyBUF_SIMPLE) != 0) {
    PyErr_Clear();
    Py_RETURN_NOTIMPLEMENTED;
  }
  const std::string_view left = bytes_in(self).text();
  const std::string_view right(static_cast<const char*>(view.buf),
                               static_cast<std::size_t>(view.len));
  const bool differs_in_size = left.size() != right.size();
  const int order =
      differs_in_size && (operation == Py_EQ || operation == Py_NE) ? 1 : left.compare(right);
  PyBuffer_Release(&view);
  Py_RETURN_RICHCOMPARE(order, 0, operation);
}

// That of equal `bytes`.
Py_hash_t hash_of(PyObject* self) {
  Py_hash_t& hash = buffer_in(self)->hash;
  if (hash == -1) {
    PyObject* const copy = bytes_from(bytes_in(self).text());
    hash = copy == nullptr ? -1 : PyObject_Hash(copy);
    Py_XDECREF(copy);
  }
  return hash;
}

PyObject* describe(PyObject* self) {
  constexpr std::size_t kMostShown = 256;
  const std::string_view text = bytes_in(self).text();
  const bool is_whole = text.size() <= kMostShown;
  PyObject* const begin = bytes_from(is_whole ? text : text.substr(0, 32));
  PyObject* const shown =
      begin == nullptr ? nullptr
      : is_whole       ? PyUnicode_FromFormat("Buffer(%R)", begin)
                 : PyUnicode_FromFormat("Buffer(%R..., %zd bytes)", begin, size_of_buffer(self));
  Py_XDECREF(begin);
  return shown;
}

// --- Methods of bytes ---

PyObject* as_bytes_object(PyObject* self, PyObject* /*none*/) {
  return bytes_from(bytes_in(self).text());
}

// The method `name` of a copy.
PyObject* call_on_copy(PyObject* self, const char* name, PyObject* const* arguments,
                       Py_ssize_t count, PyObject* names) {
  return with_copy(self, [&](PyObject* copy) -> PyObject* {
    PyObject* const method = PyObject_GetAttrString(copy, name);
    PyObject* const result =
        method == nullptr
            ? nullptr
            : PyObject_Vectorcall(method, arguments, static_cast<std::size_t>(count), names);
    Py_XDECREF(method);
    return result;
  });
}

PyObject* decode(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* names) {
  const std::string_view text = bytes_in(self).text();
  const auto size = static_cast<Py_ssize_t>(text.size());
  const auto is_name = [](PyObject* one) {
    return PyUnicode_Check(one) && PyUnicode_IS_ASCII(one) &&
           PyUnicode_FindChar(one, 0, 0, PyUnicode_GET_LENGTH(one), 1) < 0;
  };
  if (names != nullptr || count > 2 || !std::all_of(arguments, arguments + count, is_name)) {
    return call_on_copy(self, "decode", arguments, count, names);
  }
  const char* const encoding = count < 1 ? "utf-8" : PyUnicode_AsUTF8(arguments[0]);
  const char* const errors = count < 2 ? "strict" : PyUnicode_AsUTF8(arguments[1]);
  if (encoding == nullptr || errors == nullptr) {
    return nullptr;
  }
  return PyUnicode_Decode(text.data(), size, encoding, errors);
}

// Programs find the kind of a file by its start, so the usual call does not copy the file.
template <bool kAtEnd>
PyObject* is_at_edge(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  if (count != 1 || !PyBytes_Check(arguments[0])) {
    return call_on_copy(self, kAtEnd ? "endswith" : "startswith", arguments, count, nullptr);
  }
  const std::string_view edge(PyBytes_AS_STRING(arguments[0]),
                              static_cast<std::size_t>(PyBytes_GET_SIZE(arguments[0])));
  const std::string_view text = bytes_in(self).text();
  return PyBool_FromLong(kAtEnd ? text.ends_with(edge) : text.starts_with(edge));
}

// Pickles the part as `bytes`, which needs no library to read it: before protocol 3 as `bytes`
// itself does, which torch.load(weights_only=True) reads. With protocol 5, the bytes may go out of
// band.
PyObject* reduce(PyObject* self, PyObject* protocol) {
  const long version = PyLong_AsLong(protocol);
  if (version == -1 && PyErr_Occurred() != nullptr) {
    return nullptr;
  }
  if (version < 3) {
    const std::string_view text = bytes_in(self).text();
    const nb::object encode = nb::module_::import_("_codecs").attr("encode");
    return Py_BuildValue("O(Ns)", encode.ptr(),
                         PyUnicode_DecodeLatin1(text.data(), size_of_buffer(self), nullptr),
                         "latin1");
  }
  PyObject* const content =
      version >= 5 ? PyPickleBuffer_FromObject(self) : as_bytes_object(self, nullptr);
  return content == nullptr ? nullptr : Py_BuildValue("O(N)", &PyBytes_Type, content);
}

PyObject* copy_shallow(PyObject* self, PyObject* /*none*/) { return Py_NewRef(self); }

// Does not hold the memory of a batch.
PyObject* copy_deep(PyObject* self, PyObject* /*memo*/) {
  const SharedBytes& bytes = bytes_in(self);
  return bytes.owner == nullptr ? Py_NewRef(self) : new_copy(bytes.text());
}

// The names of the methods of bytes that Buffer has no faster form of.
PyObject* copying_methods = nullptr;

PyObject* attribute_of(PyObject* self, PyObject* name) {
  if (PySet_Contains(copying_methods, name) != 1) {
    return PyObject_GenericGetAttr(self, name);
  }
  return with_copy(self, [&](PyObject* copy) { return PyObject_GetAttr(copy, name); });
}

PyObject* names_of_copying_methods(nb::handle type) {
  const nb::object own = type.attr("__dict__");
  nb::object names = checked(PySet_New(nullptr));
  for (const nb::handle name :
       nb::handle(reinterpret_cast<PyObject*>(&PyBytes_Type)).attr("__dict__")) {
    if (PyUnicode_READ_CHAR(name.ptr(), 0) != '_' &&
        PySequence_Contains(own.ptr(), name.ptr()) == 0 &&
        PySet_Add(names.ptr(), name.ptr()) != 0) {
      throw nb::python_error();
    }
  }
  return names.release().ptr();
}

// isinstance(part, bytes) asks for it, as for other proxies (weakref.proxy, unittest.mock): so
// code that distinguishes bytes from str and files, such as json.loads(), takes a Buffer for bytes.
// C code that checks for real `bytes` looks at the type.
PyObject* class_of(PyObject* /*self*/, void* /*closure*/) {
  return Py_NewRef(reinterpret_cast<PyObject*>(&PyBytes_Type));
}

template <class Function>
PyCFunction method(Function* function) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {{"__bytes__", as_bytes_object, METH_NOARGS, nullptr},
                         {"__reduce_ex__", reduce, METH_O, nullptr},
                         {"__copy__", copy_shallow, METH_NOARGS, nullptr},
                         {"__deepcopy__", copy_deep, METH_O, nullptr},
                         {"decode", method(decode), METH_FASTCALL | METH_KEYWORDS, nullptr},
                         {"startswith", method(is_at_edge<false>), METH_FASTCALL, nullptr},
                         {"endswith", method(is_at_edge<true>), METH_FASTCALL, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef attributes[] = {{"__class__", class_of, nullptr, nullptr, nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

constexpr const char* kDocumentation =
    "The bytes of a part, whatever its size, without a copy of large ones. Behaves as `bytes`: "
    "isinstance(part, bytes) is true, it is equal to equal bytes and has their hash, and it has "
    "their methods, of which decode(), startswith() and endswith() do not copy. Supports the "
    "buffer protocol. bytes(part) is a copy.";

template <class Pointer>
PyType_Slot slot(int number, Pointer* pointer) {
  return {number, reinterpret_cast<void*>(pointer)};
}

}  // namespace

// --- Conversions ---

nb::object bytes_to_python(const SharedBytes& bytes) {
  const bool is_small = bytes.size() <= kLargestCopiedPart;
  return checked(is_small ? new_copy(bytes.text()) : new_buffer(bytes, 0));
}

nb::object writable_buffer(const SharedBytes& bytes) {
  nb::object object = checked(new_buffer(bytes, 0));
  buffer_in(object.ptr())->writable = true;
  return object;
}

bool is_buffer(nb::handle object) { return Py_TYPE(object.ptr()) == buffer_type; }

const SharedBytes& bytes_of_buffer(nb::handle buffer) { return bytes_in(buffer.ptr()); }

SharedBytes bytes_of_python(nb::handle object) {
  if (is_buffer(object)) {
    const SharedBytes& bytes = bytes_in(object.ptr());
    return bytes.owner != nullptr
               ? bytes
               : SharedBytes{.view = bytes.view,
                             .owner = std::make_shared<const OwnedObject>(object.ptr())};
  }
  if (PyBytes_Check(object.ptr())) {
    return {.view = as_bytes({PyBytes_AS_STRING(object.ptr()),
                              static_cast<std::size_t>(PyBytes_GET_SIZE(object.ptr()))}),
            .owner = std::make_shared<const OwnedObject>(object.ptr())};
  }
  return bytes_of_python(checked(PyBytes_FromObject(memory_of(object).ptr())));
}

void bind_buffer(nb::module_& module) {
  PyType_Slot slots[] = {slot(Py_tp_new, make_buffer),
                         slot(Py_tp_dealloc, free_buffer),
                         {Py_tp_doc, const_cast<char*>(kDocumentation)},
                         slot(Py_tp_methods, methods),
                         slot(Py_tp_getset, attributes),
                         slot(Py_tp_getattro, attribute_of),
                         slot(Py_tp_repr, describe),
                         slot(Py_tp_hash, hash_of),
                         slot(Py_tp_richcompare, compare),
                         slot(Py_bf_getbuffer, get_buffer),
                         slot(Py_sq_length, size_of_buffer),
                         slot(Py_sq_item, number_at),
                         slot(Py_sq_concat, concatenate),
                         slot(Py_sq_repeat, repeat),
                         slot(Py_sq_contains, contains),
                         slot(Py_mp_length, size_of_buffer),
                         slot(Py_mp_subscript, item_at),
                         {0, nullptr}};
  // Lives as long as the type, which older versions of Python require.
  static const std::string name =
      fmt::format("{}.Buffer", nb::cast<std::string>(module.attr("__name__")));
  PyType_Spec spec = {.name = name.c_str(),
                      .basicsize = static_cast<int>(sizeof(BufferObject)),
                      .itemsize = 0,
                      .flags = static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE),
                      .slots = slots};
  nb::object type = checked(PyType_FromSpec(&spec));
  module.attr("Buffer") = type;
  copying_methods = names_of_copying_methods(type);
  buffer_type = reinterpret_cast<PyTypeObject*>(type.release().ptr());
}

}  // namespace energon::python
