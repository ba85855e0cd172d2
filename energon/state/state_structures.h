// States that share their structure: types, names and kinds once, for all of them.
//
// The logical shards of a job run the same pipeline, so their states differ only in values. A
// structure is a state tree without values; the values of a state follow from it in order, as
// numbers of variable length. docs/formats/checkpoint.md, version 4, has both.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "energon/state/byte_codec.h"
#include "energon/state/state.h"

namespace energon {

/// Writes states and collects their structures. Not thread-safe.
class StructureWriter {
 public:
  /// Appends `state`: the number of its structure and its values.
  void write(ByteWriter& writer, const State& state);

  /// Appends the structures of all states so far, which a reader needs first.
  void write_structures(ByteWriter& writer) const;

 private:
  std::uint64_t number_of_structure();

  std::unordered_map<std::string, std::uint64_t> numbers_;
  std::vector<const std::string*> structures_;  // keys of numbers_, by number
  std::uint64_t last_ = 0;
  ByteWriter structure_;  // of the last state; reused, as is the next
  ByteWriter values_;
};

/// Reads what a StructureWriter wrote. Not thread-safe.
class StructureReader {
 public:
  /// Reads the structures. This and read() throw Error (kCorruptData) with the position. Memory is
  /// bounded by a multiple of the bytes read.
  explicit StructureReader(ByteReader& reader);

  State read(ByteReader& reader) const;

 private:
  struct Structure {
    State state;  // all values 0 or empty
    std::size_t size_bytes = 0;
  };

  std::vector<Structure> structures_;
};

}  // namespace energon
