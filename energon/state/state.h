// The saved position of a pipeline: a typed tree that mirrors the tree of its stages.
//
// A node has the type of its stage, named fields, and one child node per inner stage. Values are
// integers, bytes and lists of integers. A state never contains samples. Stages declare the same
// fields at all times, so a state fits a pipeline exactly when the shapes are equal.
// docs/formats/checkpoint.md gives the byte forms: a single state (encode_state()), and many that
// share their structure (StructureWriter).

#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "io/byte_codec.h"

namespace energon {

using StateValue = std::variant<std::int64_t, std::string, std::vector<std::int64_t>>;

/// A value type. Fields keep their order.
struct State {
  std::string type;
  std::vector<std::pair<std::string, StateValue>> fields;
  std::vector<State> children;

  bool operator==(const State&) const = default;

  /// The field `name`. All three throw Error (kMismatch) if it is missing or has another kind.
  std::int64_t integer(std::string_view name) const;
  const std::string& bytes(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
};

/// Upper bound of counters in a state: leaves room to keep counting without overflow.
inline constexpr std::int64_t kMostInState = std::int64_t{1} << 60;

/// Maximum nesting depth of states, in both the binary and the JSON form.
inline constexpr int kMaxStateDepth = 64;

/// Appends a line for each integer field in `names` that is not in [0, kMostInState].
void check_counts(const State& state, std::initializer_list<std::string_view> names,
                  std::vector<std::string>& differences);

/// Appends every difference in shape between `state` and `expected` (types, fields, kinds, number
/// of inner stages), each as "path: <found>, expected <expected>".
void compare_shapes(const State& state, const State& expected, const std::string& path,
                    std::vector<std::string>& differences);

/// Converts to and from the byte form. decode_state() throws Error (kCorruptData) with the
/// position, and never allocates by an unchecked length.
std::string encode_state(const State& state);
State decode_state(std::string_view bytes);

/// A description for people: bytes as length and digest, short text verbatim.
nlohmann::ordered_json describe_state(const State& state);

// States that share their structure: types, names and kinds are stored once for all of them.
//
// The logical shards of a job run the same pipeline, so their states differ only in values. A
// structure is a state tree without values. The values of a state are stored in the order of its
// structure, as varints. docs/formats/checkpoint.md defines both.

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
  ByteWriter structure_;  // of the last state; reused, like the next member
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
