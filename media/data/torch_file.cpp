#include <algorithm>
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
#include "media/data/pickle_reader.h"
#include "media/data/stored_elements.h"
#include "media/data/tensor_files.h"
#include "media/data/zip_members.h"

namespace energon {
namespace {

constexpr std::string_view kPickleSuffix = "/data.pkl";

// The members of the zip by their names in its one folder.
class TorchMembers {
 public:
  TorchMembers(ByteView encoded, const DecodeLimits& limits) : members_(read_zip(encoded, limits)) {
    const auto pickle = std::ranges::find_if(members_, [](const ZipMember& member) {
      return member.name.find('/') == member.name.size() - kPickleSuffix.size() &&
             member.name.ends_with(kPickleSuffix);
    });
    if (pickle == members_.end()) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("a zip of {} members without data.pkl is no file of torch.save",
                              members_.size()));
    }
    folder_ = pickle->name.substr(0, pickle->name.size() - kPickleSuffix.size() + 1);
    for (const ZipMember& member : members_) {
      by_name_.emplace(member.name, member.content);
    }
    if (find("constants.pkl")) {
      throw Error(ErrorCode::kUnsupported,
                  "a TorchScript file holds a program; save its state_dict() with torch.save");
    }
    const std::optional<ByteView> order = find("byteorder");
    if (order && as_text(*order) != "little") {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("the byte order of the file is '{}', expected is 'little'",
                              printable(as_text(*order).substr(0, 10))));
    }
  }

  std::optional<ByteView> find(std::string_view name) const {
    const auto found = by_name_.find(folder_ + std::string(name));
    return found != by_name_.end() ? std::optional(found->second) : std::nullopt;
  }

 private:
  const std::vector<ZipMember> members_;
  std::string folder_;  // with its slash
  std::unordered_map<std::string, ByteView> by_name_;
};

// Makes values of the objects of the pickle.
class TorchValues {
 public:
  // `max_values`: a small pickle can name one list so often, in lists that it names again, that all
  // of them written out fill any memory.
  TorchValues(const TorchMembers& members, const PickleGraph& graph, std::uint64_t max_values,
              const DecodeLimits& limits, BufferAllocator& memory)
      : members_(members),
        graph_(graph),
        limits_(limits),
        memory_(memory),
        max_values_(max_values) {}

  // `depth`: lists and mappings around the object.
  Value value(PickleId id, int depth) {
    if (++values_ > max_values_) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("data.pkl becomes more than {} values because it names lists or "
                              "dicts again and again",
                              max_values_));
    }
    const PickleNode& node = graph_.nodes[id];
    if (const auto* const sequence = std::get_if<PickleSequence>(&node)) {
      return list(*sequence, depth + 1);
    }
    if (const auto* const dict = std::get_if<PickleDict>(&node)) {
      return mapping(*dict, depth + 1);
    }
    if (const auto* const described = std::get_if<PickleTensor>(&node)) {
      return tensor(id, *described);
    }
    return scalar(node);
  }

 private:
  Value scalar(const PickleNode& node) {
    if (std::holds_alternative<Null>(node)) {
      return Null();
    }
    if (const auto* const boolean = std::get_if<bool>(&node)) {
      return *boolean;
    }
    if (const auto* const integer = std::get_if<std::int64_t>(&node)) {
      return *integer;
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
    throw Error(ErrorCode::kUnsupported,
                "data.pkl has a storage, a class or a function as a value; save tensors");
  }

  Value list(const PickleSequence& sequence, int depth) {
    check_depth(depth);
    List result;
    for (const PickleId item : sequence.items) {
      result.push_back(value(item, depth));
    }
    return result;
  }

  Value mapping(const PickleDict& dict, int depth) {
    check_depth(depth);
    Mapping result;
    for (const auto& [key, item] : dict.entries) {
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
                "a key of a dict is neither a text nor an integer; save texts as keys");
  }

  // 1 and "1" are two keys in Python.
  static void check_names(const Mapping& mapping) {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : mapping) {
      names.push_back(name);
    }
    std::ranges::sort(names);
    const auto twice = std::ranges::adjacent_find(names);
    if (twice != names.end()) {
      throw Error(ErrorCode::kUnsupported,
                  fmt::format("a dict has two keys that read '{}'", printable(*twice)));
    }
  }

  Tensor tensor(PickleId id, const PickleTensor& described) {
    if (const auto known = tensors_.find(id); known != tensors_.end()) {
      return known->second;
    }
    const auto& storage = *graph_.get<PickleStorage>(described.storage);
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
    tensors_.emplace(id, result.tensor);
    return std::move(result.tensor);
  }

  ByteView storage_bytes(const PickleStorage& storage) const {
    const std::optional<ByteView> bytes = members_.find("data/" + storage.key);
    if (!bytes) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("the file has no member data/{}, which a tensor lies in",
                              printable(storage.key)));
    }
    const std::size_t size = size_of(storage.dtype);
    if (bytes->size() % size != 0 ||
        bytes->size() / size != static_cast<std::uint64_t>(storage.elements)) {
      throw Error(ErrorCode::kCorruptData,
                  fmt::format("data/{} has {} bytes, expected are {} elements of {}",
                              printable(storage.key), bytes->size(), storage.elements,
                              to_string(storage.dtype)));
    }
    return *bytes;
  }

  // Elements of the tensor. Throws Error if one of them is outside of its storage.
  static std::int64_t checked_count(const PickleTensor& tensor, const PickleStorage& storage) {
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
                  fmt::format("a tensor of the shape ({}) with the strides ({}) from element {} is "
                              "outside of data/{}, which has {} elements",
                              fmt::join(tensor.shape, ", "), fmt::join(tensor.strides, ", "),
                              tensor.offset, printable(storage.key), storage.elements));
    }
    return *count;
  }

  void check_depth(int depth) const {
    if (depth > limits_.max_depth) {
      throw Error(ErrorCode::kResourceExhausted,
                  fmt::format("data.pkl has more than {} lists and dicts in one another "
                              "(DecodeLimits::max_depth), or one that contains itself",
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
  std::unordered_map<PickleId, Tensor> tensors_;  // that are made
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
                "the file is a plain pickle, as of torch.save before 1.6 or of pickle.dump; load "
                "and save it again with torch.save of a later version");
  }
  throw Error(ErrorCode::kCorruptData, "no file of torch.save: it must begin with PK, as a zip");
}

}  // namespace

Value decode_torch_file(ByteView encoded, const DecodeLimits& limits, BufferAllocator& memory) {
  check_is_zip(encoded);
  const TorchMembers members(encoded, limits);
  const ByteView pickle = *members.find("data.pkl");
  const PickleGraph graph = read_pickle(pickle, limits);
  constexpr std::uint64_t kFreeValues = std::uint64_t{1} << 20;
  constexpr std::uint64_t kValuesPerByte = 16;
  return TorchValues(members, graph, kFreeValues + kValuesPerByte * pickle.size(), limits, memory)
      .value(graph.root, 0);
}

}  // namespace energon
