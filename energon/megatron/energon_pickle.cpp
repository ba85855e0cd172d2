// What Energon's loader saved: the descriptions of objects in a pickle become EnergonRankState.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "energon/megatron/energon_state.h"
#include "io/error.h"
#include "io/file.h"
#include "io/json.h"
#include "io/pickle.h"
#include "io/tar/zip_members.h"

namespace energon {

// --- Names ---

namespace {

constexpr std::string_view kLoaderModule = "megatron.energon.savable_loader";

// What an object in the pickle stands for.
enum class EnergonKind : std::uint8_t {
  kRecord,   // a dataclass of Energon: its fields, by name
  kMapping,  // a FlexState: its items; attributes are dropped
  kLatin1,   // bytes in pickles of protocol 2: _codecs.encode(text, "latin1")
  kNoBytes,  // b"" in pickles of protocol 2: bytes()
  kDropped,  // the global generators, which do not decide the order of samples
};

struct EnergonName {
  std::string_view module;
  std::string_view name;
  EnergonKind kind = EnergonKind::kDropped;
  std::span<const std::string_view> fields = {};
};

constexpr std::array<std::string_view, 3> kLoaderFields = {"worker_states", "next_worker_id",
                                                           "micro_batch_size"};
constexpr std::array<std::string_view, 2> kCheckpointFields = {"state", "offset"};
constexpr std::array<std::string_view, 3> kDatasetFields = {"rng", "dataset_state", "sample_index"};
constexpr std::array<std::string_view, 2> kSliceFields = {"index", "current"};

constexpr EnergonName kEnergonNames[] = {
    {kLoaderModule, "SavableDataLoaderState", EnergonKind::kRecord, kLoaderFields},
    {kLoaderModule, "SavableDatasetCheckpoint", EnergonKind::kRecord, kCheckpointFields},
    {kLoaderModule, "SavableDatasetState", EnergonKind::kRecord, kDatasetFields},
    {"megatron.energon.flavors.webdataset.sample_loader", "SliceState", EnergonKind::kRecord,
     kSliceFields},
    {"megatron.energon.state", "FlexState", EnergonKind::kMapping},
    {"megatron.energon.savable", "FlexState", EnergonKind::kMapping},
    {"megatron.energon.flavors.base_dataset", "FlexState", EnergonKind::kMapping},
    {"collections", "OrderedDict", EnergonKind::kMapping},
    {"_codecs", "encode", EnergonKind::kLatin1},
    {"__builtin__", "bytes", EnergonKind::kNoBytes},
    {"builtins", "bytes", EnergonKind::kNoBytes},
    {"megatron.energon.rng", "SystemRngState"},
    {"torch._utils", "_rebuild_tensor"},
    {"torch._utils", "_rebuild_tensor_v2"},
    {"torch.storage", "_load_from_bytes"},
    {"torch.storage", "UntypedStorage"},
    {"torch.storage", "TypedStorage"},
    {"torch", "ByteStorage"},
    {"torch", "UntypedStorage"},
    {"torch", "uint8"},
    {"numpy", "ndarray"},
    {"numpy", "dtype"},
    {"numpy.core.multiarray", "_reconstruct"},
    {"numpy._core.multiarray", "_reconstruct"},
    {"numpy.core.multiarray", "scalar"},
    {"numpy._core.multiarray", "scalar"},
    {"numpy.core.numeric", "_frombuffer"},
    {"numpy._core.numeric", "_frombuffer"},
};

// Null if the name does not exist.
const EnergonName* energon_name(std::string_view module, std::string_view name) {
  const auto* const found = std::ranges::find_if(kEnergonNames, [&](const EnergonName& known) {
    return known.module == module && known.name == name;
  });
  return found != std::end(kEnergonNames) ? found : nullptr;
}

[[noreturn]] void fail_pickle(std::string message) {
  throw Error(ErrorCode::kCorruptData, std::move(message));
}

// A string of a file, for a message.
std::string shown_text(std::string_view text) {
  constexpr std::size_t kShown = 100;
  return fmt::format("'{}{}'", printable(text.substr(0, kShown)),
                     text.size() > kShown ? "..." : "");
}

void check_energon_name(std::string_view module, std::string_view name) {
  if (energon_name(module, name) == nullptr) {
    fail_pickle(fmt::format("the pickle refers to {}, which is not part of a loader's state",
                            shown_text(fmt::format("{}.{}", module, name))));
  }
}

}  // namespace

// --- Values ---

namespace {

using Json = nlohmann::ordered_json;

constexpr std::uint64_t kFreeValues = 1'000'000;  // of a file, and one for each of its bytes
constexpr std::uint64_t kBytesOfValue = 8;        // of strings and bytes: as many count as a value
constexpr int kMostDepth = 200;
constexpr int kMostNameDepth = 8;  // tuples in the name of an entry
constexpr std::size_t kMostText = std::size_t{1} << 16;

// Makes JSON of the objects in a pickle and counts its values, so that shared objects cannot
// multiply.
class EnergonPickle {
 public:
  // `most_values` is the limit for all ranks. `graph` must outlive this object.
  EnergonPickle(const PickleGraph& graph, std::uint64_t most_values)
      : graph_(graph), most_values_(most_values), values_left_(most_values) {}

  // The ranks in the file, each in the JSON of energon_rank_state().
  std::vector<Json> ranks() {
    PickleId root = graph_.root;
    // As Megatron-LM wraps it.
    if (const auto* const dict = graph_.get<PickleDict>(root)) {
      for (const auto& [key, value] : dict->items) {
        const auto* const name = graph_.get<std::string>(key);
        root = name != nullptr && *name == "dataloader_state_dict" ? value : root;
      }
    }
    const auto* const list = graph_.get<PickleSequence>(root);
    if (list == nullptr || !list->is_list) {
      return {rank(root)};
    }
    if (list->items.empty()) {
      fail_pickle("expected the states of ranks, found an empty list");
    }
    std::vector<Json> result;
    for (const PickleId item : list->items) {
      result.push_back(rank(item));
    }
    return result;
  }

 private:
  // Reads a SavableDataLoaderState, or None, which means that nothing was delivered.
  Json rank(PickleId id) {
    if (is_none(id)) {
      return nullptr;
    }
    const auto fields = record(id, "SavableDataLoaderState");
    if (!fields) {
      fail_pickle(
          fmt::format("expected the state of a rank, a SavableDataLoaderState as "
                      "save_state_rank() returns it, found {}",
                      described(id)));
    }
    const auto* const workers = graph_.get<PickleSequence>((*fields)[0]);
    if (workers == nullptr || !workers->is_list || workers->items.empty()) {
      fail_pickle(fmt::format("worker_states: expected a list of states, found {}",
                              described((*fields)[0])));
    }
    Json result = {{"next_worker_id", convert((*fields)[1])},
                   {"micro_batch_size", convert((*fields)[2])},
                   {"has_workers", is_record(workers->items[0], "SavableDatasetCheckpoint")},
                   {"workers", Json::array()}};
    for (const PickleId item : workers->items) {
      result["workers"].push_back(worker(item));
    }
    return result;
  }

  Json worker(PickleId id) {
    if (name_of(id) != nullptr && name_of(id)->kind == EnergonKind::kMapping) {
      Json tree = convert(id);  // without worker processes
      Json index = tree.contains("_sample_index") ? tree["_sample_index"] : Json();
      return {{"sample_index", std::move(index)}, {"offset", 0}, {"state", std::move(tree)}};
    }
    const auto checkpoint = record(id, "SavableDatasetCheckpoint");
    if (!checkpoint) {
      fail_pickle(fmt::format("expected the SavableDatasetCheckpoint of a worker, found {}",
                              described(id)));
    }
    Json offset = convert((*checkpoint)[1]);
    const PickleId state = (*checkpoint)[0];
    if (is_none(state)) {
      // Energon's mark of a worker that had not begun is before its first batch, at -1.
      if (offset.is_number_integer()) {
        offset = std::max(offset.get<std::int64_t>(), std::int64_t{1}) - 1;
      }
      return {{"sample_index", 0}, {"offset", std::move(offset)}, {"state", nullptr}};
    }
    const auto dataset = record(state, "SavableDatasetState");
    if (!dataset) {
      fail_pickle(
          fmt::format("expected the SavableDatasetState of a worker, found {}", described(state)));
    }
    return {{"sample_index", convert((*dataset)[2])},
            {"offset", std::move(offset)},
            {"state", convert((*dataset)[1])}};
  }

  bool is_none(PickleId id) const { return graph_.get<PickleNone>(id) != nullptr; }

  // What the object was made by; null if it is not one.
  const EnergonName* name_of(PickleId id) const {
    const auto* const object = graph_.get<PickleObject>(id);
    if (object == nullptr) {
      return nullptr;
    }
    const PickleGlobal& callable = graph_.callable_of(*object);
    return energon_name(callable.module, callable.name);
  }

  bool is_record(PickleId id, std::string_view name) const {
    const EnergonName* const known = name_of(id);
    return known != nullptr && known->kind == EnergonKind::kRecord && known->name == name;
  }

  // The fields of the object of class `name`, in their order; nullopt if it is another value, or an
  // object that was given no fields.
  std::optional<std::vector<PickleId>> record(PickleId id, std::string_view name) const {
    const auto* const object = graph_.get<PickleObject>(id);
    if (!is_record(id, name) || !object->state) {
      return std::nullopt;
    }
    const std::span<const std::string_view> fields = name_of(id)->fields;
    // Dataclasses have values in the order of the fields with slots, else a dict; with both, a
    // pair of None and the dict.
    PickleId state = *object->state;
    const auto* const pair = graph_.get<PickleSequence>(state);
    if (pair != nullptr && !pair->is_list && pair->items.size() == 2 && is_none(pair->items[0])) {
      state = pair->items[1];
    }
    if (const auto* const values = graph_.get<PickleSequence>(state);
        values != nullptr && values->items.size() == fields.size()) {
      return values->items;
    }
    const auto* const dict = graph_.get<PickleDict>(state);
    std::vector<PickleId> result;
    for (const std::string_view field : fields) {
      const auto* const value = dict == nullptr ? nullptr : find(*dict, field);
      if (value != nullptr) {
        result.push_back(*value);
      }
    }
    if (result.size() != fields.size() || dict->items.size() != fields.size()) {
      fail_pickle(
          fmt::format("the fields of {} are not {}", name_of(id)->name, fmt::join(fields, ", ")));
    }
    return result;
  }

  const PickleId* find(const PickleDict& dict, std::string_view key) const {
    for (const auto& [name, value] : dict.items) {
      const auto* const text = graph_.get<std::string>(name);
      if (text != nullptr && *text == key) {
        return &value;
      }
    }
    return nullptr;
  }

  void spend(std::uint64_t values) {
    if (values > values_left_) {
      fail_pickle(
          fmt::format("the state has more than {} values, which the size of the file does "
                      "not explain",
                      most_values_));
    }
    values_left_ -= values;
  }

  Json convert(PickleId id, int depth = 0) {
    spend(1);
    if (depth > kMostDepth) {
      fail_pickle(fmt::format("the state is nested more than {} deep", kMostDepth));
    }
    if (is_none(id)) {
      return nullptr;
    }
    if (const auto* const boolean = graph_.get<bool>(id)) {
      return *boolean;
    }
    if (const auto* const integer = graph_.get<std::int64_t>(id)) {
      return *integer;
    }
    if (const auto* const number = graph_.get<double>(id)) {
      if (!std::isfinite(*number)) {
        fail_pickle(fmt::format("the number {} is in the state of a dataset", *number));
      }
      return *number;
    }
    if (const auto* const text = graph_.get<std::string>(id)) {
      return checked_text(*text);
    }
    if (const auto* const bytes = graph_.get<SharedBytes>(id)) {
      return base64(bytes->text());
    }
    if (const auto* const sequence = graph_.get<PickleSequence>(id)) {
      return list(sequence->items, depth);
    }
    if (const auto* const dict = graph_.get<PickleDict>(id)) {
      return entries(dict->items, depth);
    }
    if (const EnergonName* const name = name_of(id)) {
      return object(id, *name, depth);
    }
    fail_pickle(fmt::format("{} is in the state of a dataset", described(id)));
  }

  Json object(PickleId id, const EnergonName& name, int depth) {
    const auto& object = *graph_.get<PickleObject>(id);
    const std::vector<PickleId>& arguments = graph_.arguments_of(object);
    if (name.kind == EnergonKind::kMapping) {
      return entries(object.items, depth);
    }
    if (name.kind == EnergonKind::kLatin1) {
      return base64(latin1(arguments));
    }
    if (name.kind == EnergonKind::kNoBytes && arguments.empty()) {
      return base64({});
    }
    if (is_record(id, "SliceState")) {
      const auto fields = record(id, "SliceState");
      Json result = Json::object();
      for (std::size_t i = 0; i < kSliceFields.size(); ++i) {
        result[std::string(kSliceFields[i])] = fields ? convert((*fields)[i], depth + 1) : Json();
      }
      return result;
    }
    fail_pickle(fmt::format("{} is in the state of a dataset", described(id)));
  }

  Json list(const std::vector<PickleId>& items, int depth) {
    Json result = Json::array();
    for (const PickleId item : items) {
      result.push_back(convert(item, depth + 1));
    }
    return result;
  }

  Json entries(const PickleItems& items, int depth) {
    // The library's own insertion would compare each name with all before it.
    Json::object_t result;
    std::unordered_set<std::string> names;
    for (const auto& [key, value] : items) {
      std::string name = entry_name(key);
      if (!names.insert(name).second) {
        fail_pickle(fmt::format("a dict has two entries {}", shown_text(name)));
      }
      result.emplace_back(std::move(name), convert(value, depth + 1));
    }
    return result;
  }

  std::string checked_text(const std::string& text) {
    if (text.size() > kMostText) {
      fail_pickle(
          fmt::format("expected strings of at most {} bytes, found {}", kMostText, text.size()));
    }
    spend(text.size() / kBytesOfValue);
    return text;
  }

  Json base64(std::string_view bytes) {
    spend(1 + bytes.size() / kBytesOfValue);
    return {{"base64", to_base64(bytes)}};
  }

  std::string latin1(const std::vector<PickleId>& arguments) const {
    const auto* const text = arguments.empty() ? nullptr : graph_.get<std::string>(arguments[0]);
    const auto* const encoding =
        arguments.size() == 2 ? graph_.get<std::string>(arguments[1]) : nullptr;
    if (text == nullptr || encoding == nullptr || *encoding != "latin1") {
      fail_pickle("bytes that are not written as latin1 text");
    }
    std::string result;
    for (std::size_t i = 0; i < text->size(); ++i) {  // it is UTF-8
      const auto byte = static_cast<unsigned char>((*text)[i]);
      if (byte > 0xC3) {
        fail_pickle("bytes that are not written as latin1 text");
      }
      result += byte < 0x80 ? (*text)[i] : static_cast<char>(byte << 6 | ((*text)[++i] & 0x3F));
    }
    return result;
  }

  // The name of an entry as Python shows it: groups of samples are entries, too, with any criterion
  // as name.
  std::string entry_name(PickleId id, int depth = 0) {
    spend(1);
    const auto* const tuple = graph_.get<PickleSequence>(id);
    if (tuple != nullptr && !tuple->is_list && depth < kMostNameDepth) {
      std::vector<std::string> parts;
      for (const PickleId item : tuple->items) {
        parts.push_back(entry_name(item, depth + 1));
      }
      return checked_text(fmt::format("({})", fmt::join(parts, ", ")));
    }
    if (const auto* const text = graph_.get<std::string>(id)) {
      return checked_text(*text);
    }
    if (const auto* const boolean = graph_.get<bool>(id)) {
      return *boolean ? "True" : "False";
    }
    if (is_none(id)) {
      return "None";
    }
    const Json number = graph_.get<std::int64_t>(id) != nullptr || graph_.get<double>(id) != nullptr
                            ? convert(id)
                            : Json();
    if (number.is_null()) {
      fail_pickle(fmt::format("the name of an entry is {}", described(id)));
    }
    return number.dump();
  }

  // For messages.
  std::string described(PickleId id) const {
    if (const auto* const dict = graph_.get<PickleDict>(id)) {
      constexpr std::size_t kShownEntries = 5;
      std::vector<std::string> names;
      for (std::size_t i = 0; i < std::min(dict->items.size(), kShownEntries); ++i) {
        if (const auto* const name = graph_.get<std::string>(dict->items[i].first)) {
          names.push_back(shown_text(*name));
        }
      }
      return names.empty() ? "a dict"
                           : fmt::format("a dict with the entries {}", fmt::join(names, ", "));
    }
    if (const EnergonName* const name = name_of(id)) {
      return fmt::format("a {}.{}{}", name->module, name->name,
                         name->kind == EnergonKind::kRecord && !graph_.get<PickleObject>(id)->state
                             ? " without fields"
                             : "");
    }
    if (const auto* const sequence = graph_.get<PickleSequence>(id)) {
      return sequence->is_list ? "a list" : "a tuple";
    }
    if (const auto* const large = graph_.get<PickleLargeInteger>(id)) {
      return fmt::format("an integer of {} bytes, which is outside of int64", large->bytes.size());
    }
    // In the order of PickleNode.
    constexpr std::array<std::string_view, std::variant_size_v<PickleNode>> kTypes = {
        "None",  "a bool",  "an int", "an int",  "a float",   "a str",
        "bytes", "a tuple", "a dict", "a class", "an object", "a storage"};
    return std::string(kTypes[graph_.nodes[id].index()]);
  }

  const PickleGraph& graph_;
  const std::uint64_t most_values_;
  std::uint64_t values_left_;
};

}  // namespace

// --- Files ---

namespace {

constexpr std::uint64_t kMostFileBytes = std::uint64_t{1} << 30;  // of a file, and of a zip in it
constexpr MemoryLimit kPickleMemory{.bytes = std::uint64_t{4} << 30};

// The pickle in what torch.save() wrote since version 1.6.
std::vector<std::byte> pickle_in_zip(ByteView content) {
  std::vector<ZipMember> members = read_zip(content, {.bytes = kMostFileBytes});
  const auto is_other = [](const ZipMember& member) { return !member.name.ends_with("/data.pkl"); };
  members.erase(std::remove_if(members.begin(), members.end(), is_other), members.end());
  if (members.size() != 1) {
    fail_pickle(
        fmt::format("expected one member data.pkl in the zip, as torch.save() writes it, "
                    "found {}",
                    members.size()));
  }
  return std::move(members.front().content);
}

PickleGraph read_energon_pickle(ByteView content) {
  const PickleOptions options{.limit = kPickleMemory, .check_name = check_energon_name};
  PickleGraph graph = read_pickle(content, options);
  // Before version 1.6, torch.save() wrote a magic number, a version and a table of sizes before
  // the value, each as a pickle.
  constexpr std::string_view kMagic("\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19");
  const auto* const magic = graph.get<PickleLargeInteger>(graph.root);
  if (magic != nullptr && magic->bytes == kMagic) {
    for (int i = 0; i < 3; ++i) {
      content = content.subspan(graph.size);
      graph = read_pickle(content, options);
    }
  }
  return graph;
}

}  // namespace

std::vector<EnergonRankState> parse_energon_states(ByteView content, const std::string& path) {
  try {
    std::vector<std::byte> unpacked;
    ByteView pickle = content;
    if (as_text(content).starts_with("PK")) {
      unpacked = pickle_in_zip(content);
      pickle = unpacked;
    }
    const PickleGraph graph = read_energon_pickle(pickle);
    std::vector<EnergonRankState> ranks;
    for (const Json& rank : EnergonPickle(graph, kFreeValues + content.size()).ranks()) {
      ranks.push_back(energon_rank_state(rank, path));
    }
    return ranks;
  } catch (const Error& error) {
    // Energon did not save a value that the reader does not know or refuses.
    ErrorContext where = error.context();
    where.path = path;
    throw Error(ErrorCode::kCorruptData,
                fmt::format("not a state that Energon's loader saved: {}", error.message()),
                std::move(where));
  }
}

std::vector<EnergonRankState> read_energon_states(const std::vector<std::string>& files,
                                                  const std::function<void()>& check_cancelled) {
  std::vector<EnergonRankState> ranks;
  for (const std::string& path : files) {
    if (check_cancelled) {
      check_cancelled();
    }
    const FileSource file(path);
    check_size(file, kMostFileBytes);
    for (EnergonRankState& rank : parse_energon_states(read_whole(file).view, path)) {
      ranks.push_back(std::move(rank));
    }
  }
  return ranks;
}

}  // namespace energon
