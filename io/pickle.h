// Reads Python's pickles (protocols 2 to 5) as data: no code is run, nothing is imported.
//
// A pickle is a program for a stack machine. This reader carries out the instructions that build
// values. Where Python would call a function or create an object of a class, it leaves a
// PickleObject that states the name, the arguments and what the pickle does to the object
// afterwards. The caller decides which names it knows, and what they mean. Python's pickletools
// documents the opcodes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "io/byte_cursor.h"
#include "io/bytes.h"

namespace energon {

/// Position of an object in PickleGraph::nodes.
using PickleId = std::size_t;

struct PickleNone {};

/// An integer outside int64: the bytes of its two's complement, lowest first.
struct PickleLargeInteger {
  std::string bytes = {};
};

struct PickleSequence {
  std::vector<PickleId> items = {};
  bool is_list = false;  ///< otherwise a tuple, which nothing is appended to
};

/// Keys and values in the order in which they were set. A key may occur more than once.
using PickleItems = std::vector<std::pair<PickleId, PickleId>>;

struct PickleDict {
  PickleItems items = {};
};

/// The name of a function or class that the caller knows.
struct PickleGlobal {
  std::string module = {};
  std::string name = {};

  bool is(std::string_view of_module, std::string_view of_name) const {
    return module == of_module && name == of_name;
  }
};

/// The result of a call, or an object of a class. Neither was made: this is its description.
struct PickleObject {
  PickleId callable = 0;               ///< a PickleGlobal
  PickleId arguments = 0;              ///< a tuple
  PickleItems items = {};              ///< what the pickle set with `object[key] = value`
  std::optional<PickleId> state = {};  ///< the argument of __setstate__(); the last one
};

/// An object outside the pickle, named by a value.
struct PicklePersistentId {
  PickleId value = 0;
};

using PickleNode = std::variant<PickleNone, bool, std::int64_t, PickleLargeInteger, double,
                                std::string, SharedBytes, PickleSequence, PickleDict, PickleGlobal,
                                PickleObject, PicklePersistentId>;

/// Objects that refer to one another by number. Lists, dicts and objects may contain themselves.
struct PickleGraph {
  std::vector<PickleNode> nodes = {};
  std::vector<std::size_t> offsets = {};  ///< of the opcode that made the node, in the pickle
  PickleId root = 0;
  std::size_t size = 0;  ///< bytes of the pickle: others may follow

  /// The object as a `Type`; null if it has another type.
  template <class Type>
  const Type* get(PickleId id) const {
    return std::get_if<Type>(&nodes[id]);
  }
  const PickleGlobal& callable_of(const PickleObject& object) const {
    return *get<PickleGlobal>(object.callable);
  }
  const std::vector<PickleId>& arguments_of(const PickleObject& object) const {
    return get<PickleSequence>(object.arguments)->items;
  }
};

struct PickleOptions {
  std::string_view name = "the pickle";  ///< for messages, such as "data.pkl"
  MemoryLimit limit = {};                ///< of the graph
  /// Called for the name of each function or class as soon as it is met. Throws Error for names
  /// that the caller does not know.
  std::function<void(std::string_view module, std::string_view name)> check_name;
};

/// Reads the pickle at the beginning of `encoded`. Memory is taken for bytes that are there, not
/// for sizes that are claimed.
///
/// Thread-safe. Throws Error with byte offset and opcode: kCorruptData for a damaged pickle,
/// kUnsupported for other protocols and opcodes (sets, and what Python's own pickler does not write
/// for simple objects), kResourceExhausted above options.limit; what check_name throws.
PickleGraph read_pickle(ByteView encoded, const PickleOptions& options);

}  // namespace energon
