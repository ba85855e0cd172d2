#include "media/data/torch_calls.h"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "io/error.h"

namespace energon {
namespace {

constexpr std::size_t kShownName = 80;

struct TorchStorageName {
  std::string_view name;
  DType dtype;
};

constexpr TorchStorageName kTorchStorages[] = {
    {"ByteStorage", DType::kUInt8},        {"CharStorage", DType::kInt8},
    {"ShortStorage", DType::kInt16},       {"IntStorage", DType::kInt32},
    {"LongStorage", DType::kInt64},        {"HalfStorage", DType::kFloat16},
    {"BFloat16Storage", DType::kBFloat16}, {"FloatStorage", DType::kFloat32},
    {"DoubleStorage", DType::kFloat64},    {"BoolStorage", DType::kBool},
};

std::string_view advice_on_global(std::string_view module, std::string_view name) {
  if (name.starts_with("Complex")) {
    return "; store real and imaginary parts as tensors of their own";
  }
  if (name == "_rebuild_tensor_v3" || name == "UntypedStorage") {
    return "; tensors of this dtype are not read, convert them before saving";
  }
  if (module.starts_with("numpy")) {
    return "; save torch tensors and Python numbers instead of NumPy's";
  }
  return "; save tensors, numbers, texts, lists and dicts only, as torch.load(weights_only=True) "
         "wants it";
}

[[noreturn]] void fail_arguments(std::string_view function) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the pickle calls {} with other arguments than torch.save writes", function));
}

const std::vector<PickleId>& items_of(const PickleGraph& graph, PickleId id,
                                      std::string_view function) {
  const auto* const sequence = graph.get<PickleSequence>(id);
  if (sequence == nullptr) {
    fail_arguments(function);
  }
  return sequence->items;
}

std::vector<std::int64_t> numbers_of(const PickleGraph& graph, PickleId id,
                                     std::string_view function) {
  std::vector<std::int64_t> result;
  for (const PickleId item : items_of(graph, id, function)) {
    const auto* const number = graph.get<std::int64_t>(item);
    if (number == nullptr) {
      fail_arguments(function);
    }
    result.push_back(*number);
  }
  return result;
}

// (storage, offset, shape, strides, requires_grad, hooks), and metadata in some versions.
PickleTensor rebuild_tensor(const PickleGraph& graph, const std::vector<PickleId>& arguments) {
  constexpr std::string_view kName = "_rebuild_tensor_v2";
  if (arguments.size() < 6 || arguments.size() > 7 ||
      graph.get<PickleStorage>(arguments[0]) == nullptr ||
      graph.get<std::int64_t>(arguments[1]) == nullptr) {
    fail_arguments(kName);
  }
  if (arguments.size() == 7) {
    const auto* const metadata = graph.get<PickleDict>(arguments[6]);
    if (graph.get<Null>(arguments[6]) == nullptr &&
        (metadata == nullptr || !metadata->entries.empty())) {
      throw Error(ErrorCode::kUnsupported,
                  "a tensor with metadata, such as one that is negated or conjugated as a view; "
                  "save tensor.clone() of it");
    }
  }
  PickleTensor result{.storage = arguments[0],
                      .offset = *graph.get<std::int64_t>(arguments[1]),
                      .shape = numbers_of(graph, arguments[2], kName),
                      .strides = numbers_of(graph, arguments[3], kName)};
  if (result.shape.size() != result.strides.size()) {
    fail_arguments(kName);
  }
  return result;
}

// (tensor, requires_grad, hooks)
PickleTensor rebuild_parameter(const PickleGraph& graph, const std::vector<PickleId>& arguments) {
  const auto* const tensor =
      arguments.size() == 3 ? graph.get<PickleTensor>(arguments[0]) : nullptr;
  if (tensor == nullptr) {
    fail_arguments("_rebuild_parameter");
  }
  return *tensor;
}

PickleDict ordered_dict(const std::vector<PickleId>& arguments) {
  if (!arguments.empty()) {
    fail_arguments("OrderedDict");
  }
  return {.is_ordered_dict = true};
}

PickleSequence torch_size(const PickleGraph& graph, const std::vector<PickleId>& arguments) {
  constexpr std::string_view kName = "torch.Size";
  if (arguments.size() != 1) {
    fail_arguments(kName);
  }
  return {.items = items_of(graph, arguments[0], kName)};
}

}  // namespace

PickleNode torch_global(std::string_view module, std::string_view name) {
  if (module == "torch._utils" && name == "_rebuild_tensor_v2") {
    return PickleFunction::kRebuildTensor;
  }
  if (module == "torch._utils" && name == "_rebuild_parameter") {
    return PickleFunction::kRebuildParameter;
  }
  if (module == "collections" && name == "OrderedDict") {
    return PickleFunction::kOrderedDict;
  }
  if (module == "torch" && name == "Size") {
    return PickleFunction::kSize;
  }
  const auto* const storage = std::ranges::find(kTorchStorages, name, &TorchStorageName::name);
  if (module == "torch" && storage != std::end(kTorchStorages)) {
    return PickleStorageType{storage->dtype};
  }
  throw Error(ErrorCode::kUnsupported,
              fmt::format("the pickle names {}.{}, which is not read{}",
                          printable(module.substr(0, kShownName)),
                          printable(name.substr(0, kShownName)), advice_on_global(module, name)));
}

PickleNode torch_storage(const PickleGraph& graph, PickleId persistent_id) {
  constexpr std::string_view kName = "a storage";
  const std::vector<PickleId>& items = items_of(graph, persistent_id, kName);
  if (items.size() != 5) {
    fail_arguments(kName);
  }
  const auto* const kind = graph.get<std::string>(items[0]);
  const auto* const type = graph.get<PickleStorageType>(items[1]);
  const auto* const key = graph.get<std::string>(items[2]);
  const auto* const elements = graph.get<std::int64_t>(items[4]);
  if (kind == nullptr || *kind != "storage" || type == nullptr || key == nullptr ||
      elements == nullptr || *elements < 0) {
    fail_arguments(kName);
  }
  return PickleStorage{.dtype = type->dtype, .key = *key, .elements = *elements};
}

PickleNode torch_call(const PickleGraph& graph, PickleId function, PickleId arguments) {
  const auto* const known = graph.get<PickleFunction>(function);
  if (known == nullptr) {
    throw Error(ErrorCode::kUnsupported, "the pickle calls something that is no function");
  }
  const std::vector<PickleId>& items = items_of(graph, arguments, "a function");
  switch (*known) {
    case PickleFunction::kRebuildTensor:
      return rebuild_tensor(graph, items);
    case PickleFunction::kRebuildParameter:
      return rebuild_parameter(graph, items);
    case PickleFunction::kOrderedDict:
      return ordered_dict(items);
    case PickleFunction::kSize:
      return torch_size(graph, items);
  }
  throw Error(ErrorCode::kInternal, "not a PickleFunction");
}

}  // namespace energon
