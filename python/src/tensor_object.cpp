#include "python/src/tensor_object.h"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "python/src/module.h"
#include "python/src/python_names.h"

namespace nb = nanobind;

namespace energon::python {

// --- DLPack ---
//
// The structures with which libraries pass tensors to each other:
// https://dmlc.github.io/dlpack/latest/c_api.html, versions 0 and 1.0.

namespace {

constexpr std::int32_t kDlCpu = 1;

enum class DlCode : std::uint8_t { kInt = 0, kUInt = 1, kFloat = 2, kBFloat = 4, kBool = 6 };

struct DlDevice {
  std::int32_t device_type;
  std::int32_t device_id;
};

struct DlDataType {
  std::uint8_t code;
  std::uint8_t bits;
  std::uint16_t lanes;
};

struct DlTensor {
  void* data;
  DlDevice device;
  std::int32_t ndim;
  DlDataType dtype;
  std::int64_t* shape;
  std::int64_t* strides;  // in elements; null if contiguous
  std::uint64_t byte_offset;
};

// The content of a capsule "dltensor".
struct DlManagedTensor {
  DlTensor tensor;
  void* manager_context;
  void (*deleter)(DlManagedTensor* self);
};

// The content of a capsule "dltensor_versioned".
struct DlManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* manager_context;
  void (*deleter)(DlManagedTensorVersioned* self);
  std::uint64_t flags;  // 1 if read-only
  DlTensor tensor;
};

}  // namespace

// --- Tensors as capsules ---

namespace {

DlCode code_of(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return DlCode::kUInt;
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return DlCode::kInt;
    case DType::kFloat16:
    case DType::kFloat32:
    case DType::kFloat64:
      return DlCode::kFloat;
    case DType::kBFloat16:
      return DlCode::kBFloat;
    case DType::kBool:
      return DlCode::kBool;
  }
  return DlCode::kUInt;
}

// The data that a capsule owns. `Managed` is the structure of its version.
template <class Managed>
struct Exported {
  Managed managed = {};
  Tensor tensor;
  std::vector<std::int64_t> strides;
};

template <class Managed>
Managed* export_tensor(const Tensor& tensor) {
  auto exported = std::make_unique<Exported<Managed>>();
  exported->tensor = tensor;
  exported->strides.assign(tensor.shape.size(), 1);
  for (std::size_t i = tensor.shape.size(); i > 1; --i) {
    exported->strides[i - 2] = exported->strides[i - 1] * tensor.shape[i - 1];
  }
  Managed& managed = exported->managed;
  managed.tensor = {
      .data =  // It belongs to one batch, whose owner may write (energon/process/arena.h).
      const_cast<std::byte*>(exported->tensor.data.view.data()),
      .device = {kDlCpu, 0},
      .ndim = static_cast<std::int32_t>(tensor.shape.size()),
      .dtype = {static_cast<std::uint8_t>(code_of(tensor.dtype)),
                static_cast<std::uint8_t>(8 * size_of(tensor.dtype)), 1},
      .shape = exported->tensor.shape.data(),
      .strides = exported->strides.data(),
      .byte_offset = 0};
  managed.manager_context = exported.get();
  // Does not need the GIL: this only returns the memory.
  managed.deleter = [](Managed* self) {
    const std::unique_ptr<Exported<Managed>> owned(
        static_cast<Exported<Managed>*>(self->manager_context));
  };
  return &exported.release()->managed;
}

template <class Managed>
nb::object capsule_of(const Tensor& tensor, const char* name) {
  Managed* managed = export_tensor<Managed>(tensor);
  // The library that takes the tensor renames the capsule and calls the deleter later.
  PyObject* capsule = PyCapsule_New(managed, name, [](PyObject* self) {
    const char* is_named = PyCapsule_GetName(self);
    if (is_named != nullptr && std::string_view(is_named).starts_with("dltensor")) {
      auto* unused = static_cast<Managed*>(PyCapsule_GetPointer(self, is_named));
      unused->deleter(unused);
    }
  });
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw nb::python_error();
  }
  return nb::steal(capsule);
}

}  // namespace

nb::object dlpack_capsule(const Tensor& tensor, bool versioned) {
  if (versioned) {
    nb::object capsule = capsule_of<DlManagedTensorVersioned>(tensor, "dltensor_versioned");
    auto* managed = static_cast<DlManagedTensorVersioned*>(
        PyCapsule_GetPointer(capsule.ptr(), "dltensor_versioned"));
    managed->major = 1;
    return capsule;
  }
  return capsule_of<DlManagedTensor>(tensor, "dltensor");
}

// --- The formats of the buffer protocol ---

namespace {

// nullptr if the buffer protocol has no format for the dtype.
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

// The dtype of elements with `format` of the buffer protocol; nullopt for other formats.
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

}  // namespace

// --- Copies of arrays ---

namespace {

std::optional<DType> dtype_of(const DlDataType& dtype) {
  if (dtype.lanes != 1) {
    return std::nullopt;
  }
  switch (static_cast<DlCode>(dtype.code)) {
    case DlCode::kInt:
      switch (dtype.bits) {
        case 8:
          return DType::kInt8;
        case 16:
          return DType::kInt16;
        case 32:
          return DType::kInt32;
        case 64:
          return DType::kInt64;
        default:
          return std::nullopt;
      }
    case DlCode::kUInt:
      return dtype.bits == 8 ? std::optional(DType::kUInt8) : std::nullopt;
    case DlCode::kFloat:
      switch (dtype.bits) {
        case 16:
          return DType::kFloat16;
        case 32:
          return DType::kFloat32;
        case 64:
          return DType::kFloat64;
        default:
          return std::nullopt;
      }
    case DlCode::kBFloat:
      return dtype.bits == 16 ? std::optional(DType::kBFloat16) : std::nullopt;
    case DlCode::kBool:
      return dtype.bits == 8 ? std::optional(DType::kBool) : std::nullopt;
  }
  return std::nullopt;
}

// Copies elements of `item` bytes, row-major; `strides` in elements. Returns the end of the copy.
std::byte* copy_strided(const std::byte* from, std::span<const std::int64_t> shape,
                        std::span<const std::int64_t> strides, std::size_t item, std::byte* to) {
  if (shape.empty()) {
    std::memcpy(to, from, item);
    return to + item;
  }
  const auto step = static_cast<std::ptrdiff_t>(item) * strides.front();
  if (shape.size() == 1 && strides.front() == 1) {
    const std::size_t size = static_cast<std::size_t>(shape.front()) * item;
    std::memcpy(to, from, size);
    return to + size;
  }
  for (std::int64_t i = 0; i < shape.front(); ++i) {
    to = copy_strided(from + i * step, shape.subspan(1), strides.subspan(1), item, to);
  }
  return to;
}

bool is_contiguous(const DlTensor& tensor) {
  if (tensor.strides == nullptr) {
    return true;
  }
  std::int64_t expected = 1;
  for (std::int32_t i = tensor.ndim; i > 0; --i) {
    if (tensor.shape[i - 1] != 1 && tensor.strides[i - 1] != expected) {
      return false;
    }
    expected *= tensor.shape[i - 1];
  }
  return true;
}

Tensor copy_of(const DlTensor& from, DType dtype, BufferAllocator& memory) {
  const std::span<const std::int64_t> shape(from.shape, static_cast<std::size_t>(from.ndim));
  NewTensor tensor = new_tensor(dtype, {shape.begin(), shape.end()}, memory);
  if (tensor.bytes.empty()) {
    return tensor.tensor;
  }
  const auto* data = static_cast<const std::byte*>(from.data) + from.byte_offset;
  if (is_contiguous(from)) {
    std::memcpy(tensor.bytes.data(), data, tensor.bytes.size());
  } else {
    const std::span<const std::int64_t> strides(from.strides, shape.size());
    copy_strided(data, shape, strides, size_of(dtype), tensor.bytes.data());
  }
  return tensor.tensor;
}

// A view of the buffer protocol.
class BufferView {
 public:
  explicit BufferView(nb::handle object)
      : valid_(PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDED_RO | PyBUF_FORMAT) == 0) {
    if (!valid_) {
      PyErr_Clear();  // dates, for example, have no format
    }
  }
  ~BufferView() {
    if (valid_) {
      PyBuffer_Release(&view_);
    }
  }
  BufferView(const BufferView&) = delete;
  BufferView& operator=(const BufferView&) = delete;

  bool valid() const { return valid_; }
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_ = {};
  const bool valid_;
};

}  // namespace

std::optional<Tensor> copy_numpy(nb::handle array, BufferAllocator& memory) {
  const BufferView buffer(array);
  if (!buffer.valid()) {
    return std::nullopt;
  }
  const Py_buffer& view = buffer.view();
  const auto dtype = dtype_of_format(view.format == nullptr ? "B" : view.format, view.itemsize);
  if (!dtype || size_of(*dtype) != static_cast<std::size_t>(view.itemsize)) {
    return std::nullopt;
  }
  NewTensor tensor = new_tensor(*dtype, {view.shape, view.shape + view.ndim}, memory);
  if (!tensor.bytes.empty() &&
      PyBuffer_ToContiguous(tensor.bytes.data(), &view, view.len, 'C') != 0) {
    throw nb::python_error();
  }
  return std::move(tensor.tensor);
}

std::optional<Tensor> copy_torch(nb::handle tensor, BufferAllocator& memory) {
  static constinit PackageAttribute to_dlpack("_values", "torch_to_dlpack");
  const nb::object capsule = to_dlpack(tensor);
  if (capsule.is_none()) {
    return std::nullopt;
  }
  // The capsule is not renamed, so it still owns the tensor.
  const auto* managed =
      static_cast<const DlManagedTensor*>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (managed == nullptr) {
    throw nb::python_error();
  }
  const auto dtype = dtype_of(managed->tensor.dtype);
  if (!dtype || managed->tensor.device.device_type != kDlCpu) {
    return std::nullopt;
  }
  return copy_of(managed->tensor, *dtype, memory);
}

// --- The class Tensor ---

TensorObject::TensorObject(Tensor tensor) : tensor_(std::move(tensor)) {
  shape_.assign(tensor_.shape.begin(), tensor_.shape.end());
  strides_.assign(shape_.size(), 0);
  auto step = static_cast<Py_ssize_t>(size_of(tensor_.dtype));
  for (std::size_t i = shape_.size(); i > 0; --i) {
    strides_[i - 1] = step;
    step *= shape_[i - 1];
  }
}

namespace {

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
    throw nb::buffer_error("the tensor is exported without a copy; copy it after taking it");
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
  throw nb::value_error(("unknown dtype '" + name + "'").c_str());
}

TensorObject from_bytes(const nb::bytes& data, const std::string& dtype, const nb::tuple& shape) {
  std::vector<std::int64_t> sizes;
  for (const nb::handle size : shape) {
    sizes.push_back(nb::cast<std::int64_t>(size));
  }
  NewTensor tensor = new_tensor(dtype_called(dtype), std::move(sizes), heap_memory());
  if (tensor.bytes.size() != data.size()) {
    throw nb::value_error("the bytes do not fit the shape");
  }
  std::memcpy(tensor.bytes.data(), data.c_str(), data.size());
  return TensorObject(std::move(tensor.tensor));
}

nb::object memory_of(nb::handle self) { return nb::steal(PyMemoryView_FromObject(self.ptr())); }

// A number of a one-dimensional tensor, else a tensor over the same memory.
nb::object element_of(nb::handle self, Py_ssize_t index) {
  const Tensor& tensor = nb::cast<const TensorObject&>(self).tensor();
  if (tensor.shape.empty()) {
    throw nb::type_error("a scalar has no elements: use item()");
  }
  const std::int64_t size = tensor.shape.front();
  if (index < -size || index >= size) {
    throw nb::index_error("element index out of range");
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
    throw nb::value_error("only a tensor with one element can become a number");
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

void bind_tensor(nb::module_& module) {
  nb::class_<TensorObject>(module, "Tensor", nb::type_slots(tensor_slots),
                           "A contiguous tensor over the memory of a batch, on the CPU. Libraries "
                           "take it without a copy, by DLPack or the buffer protocol.")
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
          "A NumPy array over the same memory. NumPy has no bfloat16: use torch().")
      .def(
          "torch",
          [](const TensorObject& self) {
            return nb::module_::import_("torch").attr("from_dlpack")(
                dlpack_capsule(self.tensor(), false));
          },
          "A torch tensor over the same memory.")
      .def("__getitem__", element_of, nb::arg("index"))
      .def("item", only_element, "The number in a tensor with one element.")
      .def("tolist", [](nb::handle self) { return memory_of(self).attr("tolist")(); })
      .def("__repr__",
           [](const TensorObject& self) { return "Tensor(" + describe(self.tensor()) + ")"; })
      .def(nb::new_(&from_bytes), nb::arg("data"), nb::arg("dtype"), nb::arg("shape"))
      .def("__reduce__", reduce_tensor, nb::sig("def __reduce__(self) -> tuple[typing.Any, ...]"));
}

}  // namespace energon::python
