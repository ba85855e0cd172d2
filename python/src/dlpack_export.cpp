#include "python/src/dlpack_export.h"

#include <memory>
#include <string_view>
#include <vector>

#include "python/src/dlpack.h"

namespace nb = nanobind;

namespace energon::python {
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

// What a capsule owns. `Managed` is the structure of its version.
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
  // Needs no GIL: it only returns the memory.
  managed.deleter = [](Managed* self) {
    const std::unique_ptr<Exported<Managed>> owned(
        static_cast<Exported<Managed>*>(self->manager_context));
  };
  return &exported.release()->managed;
}

template <class Managed>
nb::object capsule_of(const Tensor& tensor, const char* name) {
  Managed* managed = export_tensor<Managed>(tensor);
  // Whoever takes the tensor renames the capsule and calls the deleter later.
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

}  // namespace energon::python
