#include "python/src/array_reader.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "energon/sample/buffer_allocator.h"
#include "python/src/dlpack.h"
#include "python/src/python_names.h"
#include "python/src/tensor_object.h"

namespace nb = nanobind;

namespace energon::python {
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
  NewTensor made = new_tensor(dtype, {shape.begin(), shape.end()}, memory);
  if (made.bytes.empty()) {
    return made.tensor;
  }
  const auto* data = static_cast<const std::byte*>(from.data) + from.byte_offset;
  if (is_contiguous(from)) {
    std::memcpy(made.bytes.data(), data, made.bytes.size());
  } else {
    const std::span<const std::int64_t> strides(from.strides, shape.size());
    copy_strided(data, shape, strides, size_of(dtype), made.bytes.data());
  }
  return made.tensor;
}

// Of a view of the buffer protocol.
class HeldView {
 public:
  explicit HeldView(nb::handle object)
      : valid_(PyObject_GetBuffer(object.ptr(), &view_, PyBUF_STRIDED_RO | PyBUF_FORMAT) == 0) {
    if (!valid_) {
      PyErr_Clear();  // dates and others have no format
    }
  }
  ~HeldView() {
    if (valid_) {
      PyBuffer_Release(&view_);
    }
  }
  HeldView(const HeldView&) = delete;
  HeldView& operator=(const HeldView&) = delete;

  bool valid() const { return valid_; }
  const Py_buffer& view() const { return view_; }

 private:
  Py_buffer view_ = {};
  const bool valid_;
};

}  // namespace

std::optional<Tensor> copy_numpy(nb::handle array, BufferAllocator& memory) {
  const HeldView held(array);
  if (!held.valid()) {
    return std::nullopt;
  }
  const Py_buffer& view = held.view();
  const auto dtype = dtype_of_format(view.format == nullptr ? "B" : view.format, view.itemsize);
  if (!dtype || size_of(*dtype) != static_cast<std::size_t>(view.itemsize)) {
    return std::nullopt;
  }
  NewTensor made = new_tensor(*dtype, {view.shape, view.shape + view.ndim}, memory);
  if (!made.bytes.empty() && PyBuffer_ToContiguous(made.bytes.data(), &view, view.len, 'C') != 0) {
    throw nb::python_error();
  }
  return std::move(made.tensor);
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

}  // namespace energon::python
