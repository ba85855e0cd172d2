#include "energon/torch/tensor.h"

#include <array>
#include <memory>
#include <sstream>
#include <utility>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::array<std::pair<DType, at::ScalarType>, 10> kDTypes = {
    {{DType::kUInt8, at::kByte},
     {DType::kInt8, at::kChar},
     {DType::kInt16, at::kShort},
     {DType::kInt32, at::kInt},
     {DType::kInt64, at::kLong},
     {DType::kFloat16, at::kHalf},
     {DType::kBFloat16, at::kBFloat16},
     {DType::kFloat32, at::kFloat},
     {DType::kFloat64, at::kDouble},
     {DType::kBool, at::kBool}}};

at::ScalarType scalar_type(DType dtype) {
  for (const auto& [ours, torch] : kDTypes) {
    if (ours == dtype) {
      return torch;
    }
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("unknown dtype {}", static_cast<int>(dtype)));
}

void add_tensors(const Mapping& fields, const std::string& prefix,
                 std::map<std::string, at::Tensor>& tensors) {
  for (const auto& [name, value] : fields) {
    if (const auto* tensor = std::get_if<Tensor>(&value.base())) {
      tensors.insert_or_assign(prefix + name, to_torch(*tensor));
    } else if (const auto* mapping = std::get_if<Mapping>(&value.base())) {
      add_tensors(*mapping, prefix + name + ".", tensors);
    }
  }
}

}  // namespace

std::map<std::string, at::Tensor> to_torch(const Sample& batch) {
  std::map<std::string, at::Tensor> tensors;
  add_tensors(batch.fields, "", tensors);
  return tensors;
}

at::Tensor to_torch(const Tensor& tensor) {
  const at::ScalarType type = scalar_type(tensor.dtype);
  std::uint64_t bytes = size_of(tensor.dtype);
  for (const std::int64_t length : tensor.shape) {
    bytes *= static_cast<std::uint64_t>(length);
  }
  if (bytes != tensor.data.size()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("expected {} bytes of tensor data by shape and dtype, found {}", bytes,
                            tensor.data.size()));
  }
  if (bytes == 0) {
    return at::empty(tensor.shape, at::TensorOptions().dtype(type));
  }
  // The deleter holds the owner, which keeps the slot.
  return at::from_blob(
      const_cast<std::byte*>(tensor.data.view.data()), tensor.shape,
      [owner = tensor.data.owner](void*) {}, at::TensorOptions().dtype(type));
}

at::Tensor to_torch(const SharedBytes& bytes) {
  return to_torch(Tensor{DType::kUInt8, {static_cast<std::int64_t>(bytes.size())}, bytes});
}

Tensor from_torch(at::Tensor tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu() || tensor.layout() != at::kStrided) {
    throw Error(ErrorCode::kUnsupported, "only dense CPU tensors can be sent between processes");
  }
  for (const auto& [ours, torch] : kDTypes) {
    if (torch == tensor.scalar_type()) {
      auto holder = std::make_shared<at::Tensor>(tensor.contiguous());
      Tensor result;
      result.dtype = ours;
      result.shape.assign(holder->sizes().begin(), holder->sizes().end());
      result.data.view = {static_cast<const std::byte*>(holder->data_ptr()), holder->nbytes()};
      result.data.owner = std::shared_ptr<const void>(std::move(holder));
      return result;
    }
  }
  std::ostringstream name;
  name << tensor.scalar_type();
  throw Error(ErrorCode::kUnsupported,
              fmt::format("tensors of dtype {} cannot be sent between processes", name.str()));
}

}  // namespace energon
