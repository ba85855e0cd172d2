#include "python/src/tensor_object.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <array>
#include <optional>
#include <string>
#include <utility>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "python/src/dlpack.h"
#include "python/src/dlpack_export.h"

namespace nb = nanobind;

namespace energon::python {
namespace {

// nullptr: the buffer protocol has no format for it.
const char* format_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return "B";
    case DType::kInt8:
      return "b";
    case DType::kInt16:
      return "h";
    case DType::kInt32:
      return "i";
    case DType::kInt64:
      return "q";
    case DType::kFloat16:
      return "e";
    case DType::kBFloat16:
      return nullptr;
    case DType::kFloat32:
      return "f";
    case DType::kFloat64:
      return "d";
    case DType::kBool:
      return "?";
  }
  return nullptr;
}

// The memory belongs to one batch, whose owner may write it (energon/process/arena.h).
void* writable(const SharedBytes& bytes) { return const_cast<std::byte*>(bytes.view.data()); }

int get_tensor_buffer(PyObject* self, Py_buffer* view, int /*flags*/) {
  auto& object = *nb::inst_ptr<TensorObject>(self);
  const Tensor& tensor = object.tensor();
  const char* format = format_of(tensor.dtype);
  if (format == nullptr) {
    PyErr_SetString(PyExc_BufferError,
                    "the buffer protocol has no format for bfloat16: take the tensor by DLPack, "
                    "such as torch.from_dlpack(tensor)");
    view->obj = nullptr;
    return -1;
  }
  view->buf = writable(tensor.data);
  view->obj = Py_NewRef(self);
  view->len = static_cast<Py_ssize_t>(tensor.data.size());
  view->itemsize = static_cast<Py_ssize_t>(size_of(tensor.dtype));
  view->readonly = 0;
  view->ndim = static_cast<int>(tensor.shape.size());
  view->format = const_cast<char*>(format);
  view->shape = object.shape().data();
  view->strides = object.strides().data();
  view->suboffsets = nullptr;
  view->internal = nullptr;
  return 0;
}

PyType_Slot tensor_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_tensor_buffer)},
                              {0, nullptr}};

nb::tuple shape_tuple(const TensorObject& self) {
  nb::list sizes;
  for (const std::int64_t size : self.tensor().shape) {
    sizes.append(size);
  }
  return nb::tuple(sizes);
}

nb::object dlpack(const TensorObject& self, nb::handle stream, nb::handle max_version,
                  nb::handle dl_device, nb::handle copy) {
  if (!stream.is_none()) {
    throw nb::value_error("a tensor on the CPU has no stream");
  }
  if (!dl_device.is_none() && nb::cast<std::pair<int, int>>(dl_device).first != kDlCpu) {
    throw nb::buffer_error("the tensor is on the CPU; move it after taking it");
  }
  if (copy.ptr() == Py_True) {
    throw nb::buffer_error("the tensor is given without a copy; copy it after taking it");
  }
  const bool versioned =
      !max_version.is_none() && nb::cast<std::pair<int, int>>(max_version).first >= 1;
  return dlpack_capsule(self.tensor(), versioned);
}

DType dtype_called(const std::string& name) {
  for (int number = 1; size_of(static_cast<DType>(number)) > 0; ++number) {
    if (to_string(static_cast<DType>(number)) == name) {
      return static_cast<DType>(number);
    }
  }
  throw nb::value_error(("there is no dtype '" + name + "'").c_str());
}

TensorObject from_bytes(const nb::bytes& data, const std::string& dtype, const nb::tuple& shape) {
  std::vector<std::int64_t> sizes;
  for (const nb::handle size : shape) {
    sizes.push_back(nb::cast<std::int64_t>(size));
  }
  NewTensor made = new_tensor(dtype_called(dtype), std::move(sizes), heap_memory());
  if (made.bytes.size() != data.size()) {
    throw nb::value_error("the bytes do not fit the shape");
  }
  std::memcpy(made.bytes.data(), data.c_str(), data.size());
  return TensorObject(std::move(made.tensor));
}

nb::object memory_of(nb::handle self) { return nb::steal(PyMemoryView_FromObject(self.ptr())); }

// Of one dimension: a number. Else a tensor over the same memory.
nb::object element_of(nb::handle self, Py_ssize_t index) {
  const Tensor& tensor = nb::cast<const TensorObject&>(self).tensor();
  if (tensor.shape.empty()) {
    throw nb::type_error("a scalar has no elements: item()");
  }
  const std::int64_t size = tensor.shape.front();
  if (index < -size || index >= size) {
    throw nb::index_error("there is no such element");
  }
  const auto at = static_cast<std::size_t>(index < 0 ? index + size : index);
  if (tensor.shape.size() == 1 && format_of(tensor.dtype) != nullptr) {
    return memory_of(self)[at];
  }
  const std::size_t bytes = tensor.data.size() / static_cast<std::size_t>(size);
  return nb::cast(TensorObject(
      {.dtype = tensor.dtype,
       .shape = {tensor.shape.begin() + 1, tensor.shape.end()},
       .data = {.view = tensor.data.view.subspan(at * bytes, bytes), .owner = tensor.data.owner}}));
}

nb::object only_element(nb::handle self) {
  const Tensor& tensor = nb::cast<const TensorObject&>(self).tensor();
  if (tensor.data.size() != size_of(tensor.dtype)) {
    throw nb::value_error("only a tensor of one element is a number");
  }
  return memory_of(self).attr("cast")("B").attr("cast")(format_of(tensor.dtype))[0];
}

nb::object reduce_tensor(nb::handle self) {
  const auto& tensor = nb::cast<const TensorObject&>(self).tensor();
  const std::string_view bytes = tensor.data.text();
  return nb::make_tuple(
      self.type(),
      nb::make_tuple(nb::bytes(bytes.data(), bytes.size()), std::string(to_string(tensor.dtype)),
                     shape_tuple(nb::cast<const TensorObject&>(self))));
}

}  // namespace

TensorObject::TensorObject(Tensor tensor) : tensor_(std::move(tensor)) {
  shape_.assign(tensor_.shape.begin(), tensor_.shape.end());
  strides_.assign(shape_.size(), 0);
  auto step = static_cast<Py_ssize_t>(size_of(tensor_.dtype));
  for (std::size_t i = shape_.size(); i > 0; --i) {
    strides_[i - 1] = step;
    step *= shape_[i - 1];
  }
}

std::optional<DType> dtype_of_format(std::string_view format, Py_ssize_t item_size) {
  if (format.size() == 2 && (format[0] == '@' || format[0] == '=' || format[0] == '<')) {
    format.remove_prefix(1);
  }
  if (format.size() != 1) {
    return std::nullopt;
  }
  const char kind = format[0];
  if (kind == 'l' || kind == 'q' || kind == 'i' || kind == 'h' || kind == 'b') {
    switch (item_size) {
      case 1:
        return DType::kInt8;
      case 2:
        return DType::kInt16;
      case 4:
        return DType::kInt32;
      case 8:
        return DType::kInt64;
      default:
        return std::nullopt;
    }
  }
  for (const DType dtype :
       {DType::kUInt8, DType::kFloat16, DType::kFloat32, DType::kFloat64, DType::kBool}) {
    if (*format_of(dtype) == kind) {
      return dtype;
    }
  }
  return std::nullopt;
}

void bind_tensor(nb::module_& module) {
  nb::class_<TensorObject>(module, "Tensor", nb::type_slots(tensor_slots),
                           "A dense tensor over the memory of a batch, contiguous, on the CPU. "
                           "Libraries take it without a copy by DLPack or the buffer protocol.")
      .def_prop_ro(
          "dtype",
          [](const TensorObject& self) { return std::string(to_string(self.tensor().dtype)); })
      .def_prop_ro("shape", shape_tuple, nb::sig("def shape(self) -> tuple[int, ...]"))
      .def_prop_ro("ndim", [](const TensorObject& self) { return self.tensor().shape.size(); })
      .def_prop_ro("nbytes", [](const TensorObject& self) { return self.tensor().data.size(); })
      .def("__len__",
           [](const TensorObject& self) {
             if (self.tensor().shape.empty()) {
               throw nb::type_error("a scalar has no length");
             }
             return self.tensor().shape.front();
           })
      .def("__dlpack__", dlpack, nb::kw_only(), nb::arg("stream") = nb::none(),
           nb::arg("max_version") = nb::none(), nb::arg("dl_device") = nb::none(),
           nb::arg("copy") = nb::none())
      .def("__dlpack_device__", [](const TensorObject&) { return nb::make_tuple(kDlCpu, 0); })
      .def(
          "numpy",
          [](nb::handle self) { return nb::module_::import_("numpy").attr("asarray")(self); },
          "A NumPy array over the same memory. bfloat16 has none: use torch().")
      .def(
          "torch",
          [](const TensorObject& self) {
            return nb::module_::import_("torch").attr("from_dlpack")(
                dlpack_capsule(self.tensor(), false));
          },
          "A torch tensor over the same memory.")
      .def("__getitem__", element_of, nb::arg("index"))
      .def("item", only_element, "The number in a tensor of one element.")
      .def("tolist", [](nb::handle self) { return memory_of(self).attr("tolist")(); })
      .def("__repr__",
           [](const TensorObject& self) { return "Tensor(" + describe(self.tensor()) + ")"; })
      .def(nb::new_(&from_bytes), nb::arg("data"), nb::arg("dtype"), nb::arg("shape"))
      .def("__reduce__", reduce_tensor, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
}

}  // namespace energon::python
