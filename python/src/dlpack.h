// The structures of DLPack, by which libraries hand tensors to each other:
// https://dmlc.github.io/dlpack/latest/c_api.html, versions 0 and 1.0.

#pragma once

#include <cstdint>

namespace energon::python {

inline constexpr std::int32_t kDlCpu = 1;

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
  std::int64_t* strides;  // in elements; null: contiguous
  std::uint64_t byte_offset;
};

/// What a capsule "dltensor" holds.
struct DlManagedTensor {
  DlTensor tensor;
  void* manager_context;
  void (*deleter)(DlManagedTensor* self);
};

/// What a capsule "dltensor_versioned" holds.
struct DlManagedTensorVersioned {
  std::uint32_t major;
  std::uint32_t minor;
  void* manager_context;
  void (*deleter)(DlManagedTensorVersioned* self);
  std::uint64_t flags;  // 1: read-only
  DlTensor tensor;
};

}  // namespace energon::python
