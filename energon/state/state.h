// The saved position of a pipeline: a typed tree that mirrors the tree of its stages.
//
// A node has the type of its stage, named fields and the nodes of the inner stages. Values are
// integers, bytes and lists of integers; samples are never in a state. Stages declare the same
// fields at all times, so a state fits a pipeline exactly when the shapes are equal;
// docs/formats/checkpoint.md gives the byte form.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace energon {

using StateValue = std::variant<std::int64_t, std::string, std::vector<std::int64_t>>;

/// A value. Fields keep their order.
struct State {
  std::string type;
  std::vector<std::pair<std::string, StateValue>> fields;
  std::vector<State> children;

  bool operator==(const State&) const = default;

  /// The field `name`. Throw Error (kMismatch) if it is missing or of another kind.
  std::int64_t integer(std::string_view name) const;
  const std::string& bytes(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  /// The integer `name`, which is_rule(); 0 if it is missing.
  std::int64_t rule(std::string_view name) const;
};

/// Counters of a state are at most this, so that no stage overflows by counting on.
inline constexpr std::int64_t kMostInState = std::int64_t{1} << 60;

/// Whether `field` says by which rule a stage goes on. States that were saved before there was a
/// second rule lack it; then it is 0, the rule of that time.
bool is_rule(std::string_view field);
/// Gives each stage in `to` the rules of the same stage in `from`, which has the same shape.
void copy_rules(const State& from, State& to);
/// Gives all stages the rules of states that lack them.
void clear_rules(State& state);

/// Appends "<type>: <field> is <value>" for each integer of `names` that is no count: not in [0,
/// kMostInState].
void check_counts(const State& state, std::initializer_list<std::string_view> names,
                  std::vector<std::string>& differences);

/// Appends every difference in shape between `state` and `expected` (types, fields, kinds, number
/// of inner stages), each as "path: what is there, what was expected". Rules may be missing.
void compare_shapes(const State& state, const State& expected, const std::string& path,
                    std::vector<std::string>& differences);

/// Byte form and back. decode throws Error (kCorruptData) with the position; nothing is allocated
/// from an unchecked length.
std::string encode_state(const State& state);
State decode_state(std::string_view bytes);

/// For people: bytes are shown as their length and digest.
nlohmann::ordered_json describe_state(const State& state);

}  // namespace energon
