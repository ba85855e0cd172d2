#include <algorithm>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "energon/sample/buffer_allocator.h"
#include "io/error.h"
#include "io/pickle.h"
#include "io/tar/zip_members.h"
#include "media/data/documents.h"
#include "media/data/stored_elements.h"

namespace energon {
// --- Names in the pickle, and their meanings ---
//
// They are defined by torch/serialization.py and torch/_utils.py. The list is fixed.

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
    return "; store real and imaginary parts as separate tensors";
  }
  if (name == "_rebuild_tensor_v3" || name == "UntypedStorage") {
    return "; tensors of this dtype are not supported: convert them before saving";
  }
  if (module.starts_with("numpy")) {
    return "; save torch tensors and Python numbers instead of NumPy's";
  }
  return "; save only tensors, numbers, strings, lists and dicts, as torch.load(weights_only=True) "
         "requires";
}

[[noreturn]] void fail_arguments(std::string_view function) {
  throw Error(
      ErrorCode::kCorruptData,
      fmt::format("the pickle calls {} with different arguments than torch.save does", function));
}

const TorchStorageName* storage_type(const PickleGlobal& global) {
  const auto* const found = std::ranges::find(kTorchStorages, global.name, &TorchStorageName::name);
  return global.module == "torch" && found != std::end(kTorchStorages) ? found : nullptr;
}

bool is_rebuild_tensor(const PickleGlobal& global) {
  return global.is("torch._utils", "_rebuild_tensor_v2");
}
bool is_rebuild_parameter(const PickleGlobal& global) {
  return global.is("torch._utils", "_rebuild_parameter");
}
bool is_ordered_dict(const PickleGlobal& global) { return global.is("collections", "OrderedDict"); }
bool is_torch_size(const PickleGlobal& global) { return global.is("torch", "Size"); }

void check_torch_name(std::string_view module, std::string_view name) {
  const PickleGlobal global{.module = std::string(module), .name = std::string(name)};
  if (!is_rebuild_tensor(global) && !is_rebuild_parameter(global) && !is_ordered_dict(global) &&
      !is_torch_size(global) && storage_type(global) == nullptr) {
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the pickle refers to {}.{}, which is not supported{}",
                            printable(module.substr(0, kShownName)),
                            printable(name.substr(0, kShownName)), advice_on_global(module, name)));
  }
}

// A member of the zip with the elements of one or more tensors.
struct TorchStorage {
  DType dtype = DType::kUInt8;
  std::string key;  // name of the member
  std::int64_t elements = 0;
};

// A view of a storage. All numbers count elements; they come from the file, unchecked.
struct TorchTensor {
  TorchStorage storage;
  std::int64_t offset = 0;
  std::vector<std::int64_t> shape;
  std::vector<std::int64_t> strides;
};

std::vector<std::int64_t> numbers_of(const PickleGraph& graph, PickleId id,
                                     std::string_view function) {
  const auto* const sequence = graph.get<PickleSequence>(id);
  if (sequence == nullptr) {
    fail_arguments(function);
  }
  std::vector<std::int64_t> result;
  for (const PickleId item : sequence->items) {
    const auto* const number = graph.get<std::int64_t>(item);
    if (number == nullptr) {
      fail_arguments(function);
    }
    result.push_back(*number);
  }
  return result;
}

// The persistent id ("storage", type, key, device, elements).
TorchStorage torch_storage(const PickleGraph& graph, PickleId persistent_id) {
  constexpr std::string_view kName = "a storage";
  const auto* const items = graph.get<PickleSequence>(persistent_id);
  if (items == nullptr || items->items.size() != 5) {
    fail_arguments(kName);
  }
  const auto* const kind = graph.get<std::string>(items->items[0]);
  const auto* const type = graph.get<PickleGlobal>(items->items[1]);
  const auto* const key = graph.get<std::string>(items->items[2]);
  const auto* const elements = graph.get<std::int64_t>(items->items[4]);
  if (kind == nullptr || *kind != "storage" || type == nullptr || storage_type(*type) == nullptr ||
      key == nullptr || elements == nullptr || *elements < 0) {
    fail_arguments(kName);
  }
  return {.dtype = storage_type(*type)->dtype, .key = *key, .elements = *elements};
}

// (storage, offset, shape, strides, requires_grad, hooks), and metadata in some versions.
TorchTensor rebuild_tensor(const PickleGraph& graph, const std::vector<PickleId>& arguments) {
  constexpr std::string_view kName = "_rebuild_tensor_v2";
  if (arguments.size() < 6 || arguments.size() > 7 ||
      graph.get<PicklePersistentId>(arguments[0]) == nullptr ||
      graph.get<std::int64_t>(arguments[1]) == nullptr) {
    fail_arguments(kName);
  }
  if (arguments.size() == 7) {
    const auto* const metadata = graph.get<PickleDict>(arguments[6]);
    if (graph.get<PickleNone>(arguments[6]) == nullptr &&
        (metadata == nullptr || !metadata->items.empty())) {
      throw Error(ErrorCode::kUnsupported,
                  "a tensor with metadata, such as a negated or conjugated view; save "
                  "tensor.clone()");
    }
  }
  TorchTensor result{
      .storage = torch_storage(graph, graph.get<PicklePersistentId>(arguments[0])->value),
      .offset = *graph.get<std::int64_t>(arguments[1]),
      .shape = numbers_of(graph, arguments[2], kName),
      .strides = numbers_of(graph, arguments[3], kName)};
  if (result.shape.size() != result.strides.size()) {
    fail_arguments(kName);
  }
  return result;
}

// The tensor in a call of _rebuild_parameter(tensor, requires_grad, hooks).
PickleId tensor_of_parameter(const PickleGraph& graph, const std::vector<PickleId>& arguments) {
  const auto* const tensor =
      arguments.size() == 3 ? graph.get<PickleObject>(arguments[0]) : nullptr;
  if (tensor == nullptr || !is_rebuild_tensor(graph.callable_of(*tensor))) {
    fail_arguments("_rebuild_parameter");
  }
  return arguments[0];
}

}  // namespace

// --- Files ---

namespace {

constexpr std::string_view kPickleSuffix = "/data.pkl";

// The members of the zip by their names in its only folder.
class TorchMembers {
 public:
  TorchMembers(ByteView encoded, const DecodeLimits& limits)
      : members_(read_zip(encoded, memory_limit(limits))) {
    const auto pickle = std::ranges::find_if(members_, [](const ZipMember& member) {
      return member.name.find('/') == member.name.size() - kPickleSuffix.size() &&
             member.name.ends_with(kPickleSuffix);
    });
    if (pickle == members_.end()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("not a torch.save file: the zip has {} members but no data.pkl",
                              members_.size()));
    }
    folder_ = pickle->name.substr(0, pickle->name.size() - kPickleSuffix.size() + 1);
    for (const ZipMember& member : members_) {
      by_name_.emplace(member.name, member.content);
    }
    if (find("constants.pkl")) {
      throw Error(ErrorCode::kUnsupported,
                  "a TorchScript file contains a program; save its state_dict() with torch.save");
    }
    const std::optional<ByteView> order = find("byteorder");
    if (order && as_text(*order) != "little") {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("expected the byte order 'little', found '{}'",
                              printable(as_text(*order).substr(0, 10))));
    }
  }

  std::optional<ByteView> find(std::string_view name) const {
    const auto found = by_name_.find(folder_ + std::string(name));
    return found != by_name_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  const std::vector<ZipMember> members_;
  std::string folder_;  // with a slash at the end
  std::unordered_map<std::string, ByteView> by_name_;
};

// Converts objects of the pickle to values.
class TorchValues {
 public:
  // `max_values` is needed because a small pickle can refer to one list many times, in lists that
  // it also refers to many times, so that their values would fill any memory.
  TorchValues(const TorchMembers& members, const PickleGraph& graph, std::uint64_t max_values,
              const DecodeLimits& limits, BufferAllocator& memory)
      : members_(members),
        graph_(graph),
        limits_(limits),
        memory_(memory),
        max_values_(max_values) {}

  // `depth` is the number of lists and mappings around the object.
  Value value(PickleId id, int depth) {
    if (++values_ > max_values_) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("data.pkl expands to more than {} values because it refers to lists "
                              "or dicts many times",
                              max_values_));
    }
    const PickleNode& node = graph_.nodes[id];
    if (const auto* const sequence = std::get_if<PickleSequence>(&node)) {
      return list(sequence->items, depth + 1);
    }
    if (const auto* const dict = std::get_if<PickleDict>(&node)) {
      return mapping(dict->items, depth + 1);
    }
    if (const auto* const described = std::get_if<PickleObject>(&node)) {
      return object(id, *described, depth);
    }
    return scalar(node);
  }

 private:
  Value object(PickleId id, const PickleObject& described, int depth) {
    const PickleGlobal& callable = graph_.callable_of(described);
    const std::vector<PickleId>& arguments = graph_.arguments_of(described);
    if (is_rebuild_tensor(callable)) {
      return tensor(id);
    }
    if (is_rebuild_parameter(callable)) {
      return tensor(tensor_of_parameter(graph_, arguments));
    }
    // Attributes, in which state_dict() stores the versions of modules, are dropped.
    if (is_ordered_dict(callable)) {
      if (!arguments.empty()) {
        fail_arguments("OrderedDict");
      }
      return mapping(described.items, depth + 1);
    }
    if (is_torch_size(callable)) {
      if (arguments.size() != 1 || graph_.get<PickleSequence>(arguments[0]) == nullptr) {
        fail_arguments("torch.Size");
      }
      return value(arguments[0], depth);
    }
    throw Error(ErrorCode::kUnsupported,
                fmt::format("the pickle calls {}.{}, which is not a function of torch.save (byte "
                            "{} of data.pkl)",
                            callable.module, callable.name, graph_.offsets[id]));
  }

  Value scalar(const PickleNode& node) {
    if (std::holds_alternative<PickleNone>(node)) {
      return Null();
    }
    if (const auto* const boolean = std::get_if<bool>(&node)) {
      return *boolean;
    }
    if (const auto* const integer = std::get_if<std::int64_t>(&node)) {
      return *integer;
    }
    if (const auto* const large = std::get_if<PickleLargeInteger>(&node)) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("an integer of {} bytes is outside int64 [-2^63, 2^63)",
                              large->bytes.size()));
    }
    if (const auto* const number = std::get_if<double>(&node)) {
      return *number;
    }
    if (const auto* const text = std::get_if<std::string>(&node)) {
      charge(text->size());
      return *text;
    }
    if (const auto* const bytes = std::get_if<SharedBytes>(&node)) {
      return *bytes;
    }
    if (const auto* const persistent = std::get_if<PicklePersistentId>(&node)) {
      torch_storage(graph_, persistent->value);  // throws if the storage is damaged
    }
    throw Error(ErrorCode::kUnsupported,
                "data.pkl has a storage, a class or a function as a value; save tensors");
  }

  Value list(const std::vector<PickleId>& items, int depth) {
    check_depth(depth);
    List result;
    for (const PickleId item : items) {
      result.push_back(value(item, depth));
    }
    return result;
  }

  Value mapping(const PickleItems& items, int depth) {
    check_depth(depth);
    Mapping result;
    for (const auto& [key, item] : items) {
      std::string name = name_of(key);
      charge(name.size());
      result.emplace_back(std::move(name), value(item, depth));
    }
    check_names(result);
    return result;
  }

  std::string name_of(PickleId key) const {
    if (const auto* const text = graph_.get<std::string>(key)) {
      return *text;
    }
    if (const auto* const number = graph_.get<std::int64_t>(key)) {
      return std::to_string(*number);
    }
    throw Error(ErrorCode::kUnsupported,
                "a dict has a key that is neither a string nor an integer; save strings as keys");
  }

  // 1 and "1" are different keys in Python.
  static void check_names(const Mapping& mapping) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : mapping) {
      names.push_back(name);
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a dict has two keys that become '{}'", printable(*twice)));
    }
  }

  // Requires: `id` is a call of _rebuild_tensor_v2.
  Tensor tensor(PickleId id) {
    if (const auto known = tensors_.find(id); known != tensors_.end()) {
      return known->second;
    }
    try {
      return tensors_.emplace(id, new_tensor_of(id)).first->second;
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{} (byte {} of data.pkl)", error.message(), graph_.offsets[id]),
                  error.context());
    }
  }

  Tensor new_tensor_of(PickleId id) {
    const TorchTensor described =
        rebuild_tensor(graph_, graph_.arguments_of(*graph_.get<PickleObject>(id)));
    const TorchStorage& storage = described.storage;
    const StoredType type{storage.dtype, size_of(storage.dtype)};
    const ByteView bytes = storage_bytes(storage);
    const std::int64_t count = checked_count(described, storage);
    charge(static_cast<std::uint64_t>(count) * type.stored_size);
    NewTensor result = new_tensor(storage.dtype, described.shape, memory_);
    if (count > 0) {
      copy_elements(
          {.bytes = bytes.subspan(static_cast<std::size_t>(described.offset) * type.stored_size),
           .type = type,
           .shape = described.shape,
           .strides = described.strides},
          result.bytes);
    }
    return std::move(result.tensor);
  }

  ByteView storage_bytes(const TorchStorage& storage) const {
    const std::optional<ByteView> bytes = members_.find("data/" + storage.key);
    if (!bytes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the file has no member data/{}, which a tensor needs",
                              printable(storage.key)));
    }
    const std::size_t size = size_of(storage.dtype);
    if (bytes->size() % size != 0 ||
        bytes->size() / size != static_cast<std::uint64_t>(storage.elements)) {
      throw Error(
          ErrorCode::kCorruptData,
          fmt::format("data/{}: expected {} elements of {}, found {} bytes", printable(storage.key),
                      storage.elements, to_string(storage.dtype), bytes->size()));
    }
    return *bytes;
  }

  // The number of elements of the tensor. Throws Error if one of them is outside its storage.
  static std::int64_t checked_count(const TorchTensor& tensor, const TorchStorage& storage) {
    const std::optional<std::int64_t> count = element_count(tensor.shape);
    const bool is_any_negative =
        tensor.offset < 0 || std::ranges::any_of(tensor.strides, [](auto s) { return s < 0; });
    std::int64_t last = tensor.offset;
    bool is_too_far = false;
    for (std::size_t i = 0; count.value_or(0) > 0 && i < tensor.shape.size(); ++i) {
      std::int64_t distance = 0;
      is_too_far |= __builtin_mul_overflow(tensor.shape[i] - 1, tensor.strides[i], &distance) ||
                    __builtin_add_overflow(last, distance, &last);
    }
    if (!count || is_any_negative || is_too_far || (*count > 0 && last >= storage.elements)) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("a tensor with shape ({}) and strides ({}) from element {} exceeds "
                              "data/{}, which has {} elements",
                              fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "),
                              tensor.offset, printable(storage.key), storage.elements));
    }
    return *count;
  }

  void check_depth(int depth) const {
    if (depth > limits_.max_depth) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("lists and dicts in data.pkl are nested more than {} deep "
                              "(DecodeLimits::max_depth), or contain themselves",
                              limits_.max_depth));
    }
  }

  void charge(std::uint64_t bytes) {
    bytes_ = bytes_ + bytes < bytes ? ~std::uint64_t{0} : bytes_ + bytes;
    check_decoded_bytes("the torch file", bytes_, limits_);
  }

  const TorchMembers& members_;
  const PickleGraph& graph_;
  const DecodeLimits& limits_;
  BufferAllocator& memory_;
  const std::uint64_t max_values_;
  std::unordered_map<PickleId, Tensor> tensors_;  // already converted
  std::uint64_t values_ = 0;
  std::uint64_t bytes_ = 0;
};

void check_is_zip(ByteView encoded) {
  const std::string_view text = as_text(encoded);
  if (text.starts_with("PK")) {
    return;
  }
  if (text.starts_with('\x80')) {
    throw Error(ErrorCode::kUnsupported,
                "the file is a plain pickle, written by torch.save before 1.6 or pickle.dump; load "
                "it and save it again with torch.save of a later version");
  }
  throw Error(ErrorCode::kCorruptData,
              "not a torch.save file: it must begin with PK, as a zip does");
}

}  // namespace

Value decode_torch_file(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory) {
  check_is_zip(encoded);
  const TorchMembers members(encoded, limits);
  const ByteView pickle = *members.find("data.pkl");
  const PickleGraph graph = read_pickle(
      pickle, {.name = "data.pkl", .limit = memory_limit(limits), .check_name = check_torch_name});
  constexpr std::uint64_t kFreeValues = std::uint64_t{1} << 20;
  constexpr std::uint64_t kValuesPerByte = 16;
  return TorchValues(members, graph, kFreeValues + kValuesPerByte * pickle.size(), limits, memory)
      .value(graph.root, 0);
}

}  // namespace energon
