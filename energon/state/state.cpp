#include "energon/state/state.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "io/byte_codec.h"
#include "io/bytes.h"
#include "io/error.h"
#include "io/hash.h"
#include "io/overloaded.h"

namespace energon {
namespace {

// Kinds of values in the byte forms of states: the index of the type in StateValue. Frozen: append,
// never renumber.

void write_kind(ByteWriter& writer, const StateValue& value) {
  writer.u8(static_cast<std::uint8_t>(value.index()));
}

/// Reads a kind and returns its default value (0 or empty). Throws Error (kCorruptData).
StateValue read_kind(ByteReader& reader) {
  static_assert(std::variant_size_v<StateValue> == 3);
  const std::uint8_t kind = reader.u8();
  if (kind == 0) {
    return std::int64_t{0};
  }
  if (kind == 1) {
    return std::string();
  }
  if (kind == 2) {
    return std::vector<std::int64_t>();
  }
  reader.fail("unknown kind of field");
}

constexpr std::size_t kMostReserved = 16;  // fields or children, reserved before they are read

std::string_view kind_name(const StateValue& value) {
  using Name = std::string_view;
  return std::visit(
      Overloaded{
          [](std::int64_t) -> Name { return "an integer"; },
          [](const std::string&) -> Name { return "bytes"; },
          [](const std::vector<std::int64_t>&) -> Name { return "a list of integers"; },
      },
      value);
}

template <class Value>
const Value& field(const State& state, std::string_view name) {
  for (const auto& [field_name, value] : state.fields) {
    if (field_name == name) {
      if (const auto* found = std::get_if<Value>(&value)) {
        return *found;
      }
      break;
    }
  }
  throw Error(
      ErrorCode::kMismatch,
      fmt::format("the state of a {} has no field '{}' of the expected kind", state.type, name));
}

// Text such as "<seed> <draws>" of a generator.
bool is_short_text(std::string_view bytes) {
  constexpr std::size_t kLongest = 40;
  return bytes.size() <= kLongest &&
         std::all_of(bytes.begin(), bytes.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

void encode_into(ByteWriter& writer, const State& state) {
  writer.text(state.type);
  writer.u32(static_cast<std::uint32_t>(state.fields.size()));
  for (const auto& [name, value] : state.fields) {
    writer.text(name);
    write_kind(writer, value);
    std::visit(Overloaded{
                   [&](std::int64_t integer) { writer.i64(integer); },
                   [&](const std::string& bytes) { writer.text(bytes); },
                   [&](const std::vector<std::int64_t>& integers) {
                     writer.u32(static_cast<std::uint32_t>(integers.size()));
                     writer.raw(integers.data(), integers.size() * sizeof(std::int64_t));
                   },
               },
               value);
  }
  writer.u32(static_cast<std::uint32_t>(state.children.size()));
  for (const State& child : state.children) {
    encode_into(writer, child);
  }
}

// The exact size of what encode_into() writes. Reserving it avoids copies of states of megabytes
// while the writer grows.
std::size_t encoded_size(const State& state) {
  std::size_t size = 4 + state.type.size() + 4 + 4;
  for (const auto& [name, value] : state.fields) {
    size += 4 + name.size() + 1;
    size += std::visit(Overloaded{
                           [](std::int64_t) { return sizeof(std::int64_t); },
                           [](const std::string& bytes) { return 4 + bytes.size(); },
                           [](const std::vector<std::int64_t>& integers) {
                             return 4 + integers.size() * sizeof(std::int64_t);
                           },
                       },
                       value);
  }
  for (const State& child : state.children) {
    size += encoded_size(child);
  }
  return size;
}

State decode_from(ByteReader& reader, int depth) {
  if (depth > kMaxStateDepth) {
    reader.fail("too deeply nested");
  }
  State state;
  state.type = reader.text();
  const std::uint32_t field_count = reader.count(6);
  state.fields.reserve(std::min<std::size_t>(field_count, kMostReserved));
  for (std::uint32_t i = 0; i < field_count; ++i) {
    std::string name(reader.text());
    StateValue value = read_kind(reader);
    std::visit(Overloaded{
                   [&](std::int64_t& integer) { integer = reader.i64(); },
                   [&](std::string& bytes) { bytes = reader.text(); },
                   [&](std::vector<std::int64_t>& integers) {
                     integers.resize(reader.count(sizeof(std::int64_t)));
                     const std::string_view raw =
                         reader.raw(integers.size() * sizeof(std::int64_t));
                     if (!integers.empty()) {
                       std::memcpy(integers.data(), raw.data(), raw.size());
                     }
                   },
               },
               value);
    state.fields.emplace_back(std::move(name), std::move(value));
  }
  const std::uint32_t child_count = reader.count(12);
  state.children.reserve(std::min<std::size_t>(child_count, kMostReserved));
  for (std::uint32_t i = 0; i < child_count; ++i) {
    state.children.push_back(decode_from(reader, depth + 1));
  }
  return state;
}

}  // namespace

std::int64_t State::integer(std::string_view name) const {
  return field<std::int64_t>(*this, name);
}

const std::string& State::bytes(std::string_view name) const {
  return field<std::string>(*this, name);
}

const std::vector<std::int64_t>& State::integers(std::string_view name) const {
  return field<std::vector<std::int64_t>>(*this, name);
}

void check_counts(const State& state, std::initializer_list<std::string_view> names,
                  std::vector<std::string>& differences) {
  for (const std::string_view name : names) {
    const std::int64_t value = state.integer(name);
    if (value < 0 || value > kMostInState) {
      differences.push_back(
          fmt::format("{}: {} is {}, which is out of range", state.type, name, value));
    }
  }
}

void compare_shapes(const State& state, const State& expected, const std::string& path,
                    std::vector<std::string>& differences) {
  const std::string here = path.empty() ? expected.type : path + "/" + expected.type;
  if (state.type != expected.type) {
    differences.push_back(fmt::format("{}: found the state of a {}", here, printable(state.type)));
    return;
  }
  for (const auto& [name, value] : expected.fields) {
    const auto found =
        std::find_if(state.fields.begin(), state.fields.end(),
                     [&name = name](const auto& field) { return field.first == name; });
    if (found == state.fields.end()) {
      differences.push_back(fmt::format("{}: field '{}' is missing", here, name));
    } else if (found->second.index() != value.index()) {
      differences.push_back(fmt::format("{}: field '{}' is {}, expected {}", here, name,
                                        kind_name(found->second), kind_name(value)));
    }
  }
  if (state.fields.size() > expected.fields.size()) {
    differences.push_back(fmt::format("{}: {} fields, expected {}", here, state.fields.size(),
                                      expected.fields.size()));
  }
  for (const auto& [name, value] : state.fields) {
    if (std::none_of(expected.fields.begin(), expected.fields.end(),
                     [&name = name](const auto& field) { return field.first == name; })) {
      differences.push_back(fmt::format("{}: unknown field '{}'", here, printable(name)));
    }
  }
  if (state.children.size() != expected.children.size()) {
    differences.push_back(fmt::format("{}: {} inner stages, expected {}", here,
                                      state.children.size(), expected.children.size()));
    return;
  }
  for (std::size_t i = 0; i < state.children.size(); ++i) {
    compare_shapes(state.children[i], expected.children[i], here, differences);
  }
}

std::string encode_state(const State& state) {
  ByteWriter writer;
  writer.reserve(encoded_size(state));
  encode_into(writer, state);
  return writer.take();
}

State decode_state(std::string_view bytes) {
  ByteReader reader(bytes, "state");
  State state = decode_from(reader, 0);
  reader.finish();
  return state;
}

nlohmann::ordered_json describe_state(const State& state) {
  nlohmann::ordered_json json;
  json["type"] = printable(state.type);
  for (const auto& [name, value] : state.fields) {
    const std::string shown = printable(name);
    std::visit(Overloaded{
                   [&](const std::string& bytes) {
                     json[shown] = is_short_text(bytes)
                                       ? bytes
                                       : fmt::format("{} bytes, xxh3 {}", bytes.size(),
                                                     to_hex(xxh3_64(as_bytes(bytes))));
                   },
                   [&](const auto& numbers) { json[shown] = numbers; },
               },
               value);
  }
  if (!state.children.empty()) {
    json["inner"] = nlohmann::ordered_json::array();
    for (const State& child : state.children) {
      json["inner"].push_back(describe_state(child));
    }
  }
  return json;
}

// --- StructureWriter and StructureReader ---

namespace {

// The number that precedes the values of a state. Numbers from kFirstStructure on name a structure.
constexpr std::uint64_t kPlain = 0;  // a complete state tree follows
constexpr std::uint64_t kFirstStructure = 1;

// Limit on bytes of structure per byte of values; above it, the state is written as kPlain. This
// keeps a file of a few bytes from requesting the memory of many large structures.
constexpr std::size_t kMostStructurePerValue = 8;

constexpr std::size_t kShortestStructure = 12;
constexpr std::size_t kShortestField = 5;
constexpr std::size_t kMostReservedOfStructure =
    16;  // fields or children, reserved before they are read

void split(const State& state, ByteWriter& structure, ByteWriter& values) {
  structure.text(state.type);
  structure.u32(static_cast<std::uint32_t>(state.fields.size()));
  for (const auto& [name, value] : state.fields) {
    structure.text(name);
    write_kind(structure, value);
    std::visit(Overloaded{
                   [&](std::int64_t integer) { values.signed_varint(integer); },
                   [&](const std::string& bytes) {
                     values.varint(bytes.size());
                     values.raw(bytes);
                   },
                   [&](const std::vector<std::int64_t>& integers) {
                     values.varint(integers.size());
                     for (const std::int64_t integer : integers) {
                       values.signed_varint(integer);
                     }
                   },
               },
               value);
  }
  structure.u32(static_cast<std::uint32_t>(state.children.size()));
  for (const State& child : state.children) {
    split(child, structure, values);
  }
}

State read_structure(ByteReader& reader, int depth) {
  if (depth > kMaxStateDepth) {
    reader.fail("too deeply nested");
  }
  State state;
  state.type = reader.text();
  const std::uint32_t field_count = reader.count(kShortestField);
  state.fields.reserve(std::min<std::size_t>(field_count, kMostReservedOfStructure));
  for (std::uint32_t i = 0; i < field_count; ++i) {
    std::string name(reader.text());
    StateValue value = read_kind(reader);
    state.fields.emplace_back(std::move(name), std::move(value));
  }
  const std::uint32_t child_count = reader.count(kShortestStructure);
  state.children.reserve(std::min<std::size_t>(child_count, kMostReservedOfStructure));
  for (std::uint32_t i = 0; i < child_count; ++i) {
    state.children.push_back(read_structure(reader, depth + 1));
  }
  return state;
}

void read_values(ByteReader& reader, State& state) {
  for (auto& [name, value] : state.fields) {
    std::visit(Overloaded{
                   [&](std::int64_t& integer) { integer = reader.signed_varint(); },
                   [&](std::string& bytes) { bytes = reader.raw(reader.varint()); },
                   [&](std::vector<std::int64_t>& integers) {
                     const std::uint64_t count = reader.varint();
                     if (count > reader.left()) {
                       reader.fail(fmt::format(
                           "the count is {}, but at most {} integers fit into the remaining bytes",
                           count, reader.left()));
                     }
                     integers.resize(count);
                     for (std::int64_t& integer : integers) {
                       integer = reader.signed_varint();
                     }
                   },
               },
               value);
  }
  for (State& child : state.children) {
    read_values(reader, child);
  }
}

bool is_large_enough(std::size_t values, std::size_t structure) {
  return structure <= kMostStructurePerValue * values;
}

}  // namespace

// Usually the structure of the previous state.
std::uint64_t StructureWriter::number_of_structure() {
  const std::string& structure = structure_.bytes();
  if (!structures_.empty() && *structures_[last_] == structure) {
    return last_;
  }
  const auto [entry, is_new] = numbers_.try_emplace(structure, structures_.size());
  if (is_new) {
    structures_.push_back(&entry->first);
  }
  last_ = entry->second;
  return last_;
}

void StructureWriter::write(ByteWriter& writer, const State& state) {
  structure_.clear();
  values_.clear();
  split(state, structure_, values_);
  const std::string& values = values_.bytes();
  if (!is_large_enough(values.size(), structure_.bytes().size())) {
    const std::string plain = encode_state(state);
    writer.varint(kPlain);
    writer.varint(plain.size());
    writer.raw(plain);
    return;
  }
  writer.varint(number_of_structure() + kFirstStructure);
  writer.varint(values.size());
  writer.raw(values);
}

void StructureWriter::write_structures(ByteWriter& writer) const {
  writer.u32(static_cast<std::uint32_t>(structures_.size()));
  for (const std::string* structure : structures_) {
    writer.raw(*structure);
  }
}

StructureReader::StructureReader(ByteReader& reader) {
  structures_.resize(reader.count(kShortestStructure));
  for (Structure& structure : structures_) {
    const std::size_t begin = reader.position();
    structure.state = read_structure(reader, 0);
    structure.size_bytes = reader.position() - begin;
  }
}

State StructureReader::read(ByteReader& reader) const {
  const std::uint64_t number = reader.varint();
  const std::uint64_t size = reader.varint();
  if (number == kPlain) {
    return decode_state(reader.raw(size));
  }
  if (number - kFirstStructure >= structures_.size()) {
    reader.fail(fmt::format("a state has structure {}, but there are only {}",
                            number - kFirstStructure, structures_.size()));
  }
  const Structure& structure = structures_[number - kFirstStructure];
  if (!is_large_enough(size, structure.size_bytes)) {
    reader.fail(
        fmt::format("{} bytes of values for a structure of {} bytes", size, structure.size_bytes));
  }
  ByteReader values = reader.part(size);  // refuses a size beyond the end
  State state = structure.state;
  read_values(values, state);
  values.finish();
  return state;
}

}  // namespace energon
