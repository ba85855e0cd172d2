#include "energon/state/state_structures.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "energon/state/state_depth.h"
#include "energon/state/value_kind.h"
#include "io/overloaded.h"

namespace energon {
namespace {

// What stands before the values of a state. Higher numbers: a structure.
constexpr std::uint64_t kPlain = 0;  // a state tree with its own structure follows
constexpr std::uint64_t kFirstStructure = 1;

// A structure may have at most this many bytes for each byte of values; else the state is written
// plain. So a file of a few bytes cannot ask for the memory of many large structures.
constexpr std::size_t kMostStructurePerValue = 8;

constexpr std::size_t kShortestStructure = 12;
constexpr std::size_t kShortestField = 5;
constexpr std::size_t kMostReservedOfStructure = 16;  // fields or children, before they were read

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
                     values.raw(bytes.data(), bytes.size());
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
                       reader.fail(fmt::format("{} numbers announced, there is room for {}", count,
                                               reader.left()));
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

// Mostly that of the state before.
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
    writer.raw(plain.data(), plain.size());
    return;
  }
  writer.varint(number_of_structure() + kFirstStructure);
  writer.varint(values.size());
  writer.raw(values.data(), values.size());
}

void StructureWriter::write_structures(ByteWriter& writer) const {
  writer.u32(static_cast<std::uint32_t>(structures_.size()));
  for (const std::string* structure : structures_) {
    writer.raw(structure->data(), structure->size());
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
    reader.fail(fmt::format("a state has structure {}, there are {}", number - kFirstStructure,
                            structures_.size()));
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
