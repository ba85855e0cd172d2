// The field map of a dataset.yaml: from which parts the fields of a typed sample are made.
//
//   image: jpg,png                the part jpg or, where there is none, the part png
//   caption: json[captions][0]    in the part json, the first of its "captions"
//
// An expression is alternatives with commas between them, each a part and any number of steps in
// brackets. A step is the name of a member or, where the value is a list, a position; -1 is the
// last one. The grammar is Energon's. Blanks belong to the names, so none are allowed at the ends
// of an alternative.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/dataset/sample_type.h"

namespace energon {

struct FieldStep {
  std::string name = {};
  /// The position that `name` is in a list; absent: no whole number.
  std::optional<std::int64_t> index = std::nullopt;

  bool operator==(const FieldStep&) const = default;
};

/// One alternative.
struct FieldPath {
  std::string part = {};
  std::vector<FieldStep> steps = {};

  bool operator==(const FieldPath&) const = default;
};

/// At least one alternative; the first that a sample has is taken.
struct FieldExpression {
  std::vector<FieldPath> alternatives = {};

  bool operator==(const FieldExpression&) const = default;
};

/// Throws Error (kInvalidArgument) with the expression, the position of the character that is wrong
/// (from 1) and what is expected there.
FieldExpression parse_field_expression(std::string_view text);

/// The text form: parse_field_expression() gives the same again.
std::string to_text(const FieldPath& path);
std::string to_text(const FieldExpression& expression);

/// Immutable after its fields are set.
struct FieldMap {
  struct Field {
    std::string name = {};
    FieldExpression expression = {};

    bool operator==(const Field&) const = default;
  };
  std::vector<Field> fields = {};  ///< each name once

  /// Null if there is no field `name`.
  const FieldExpression* find(std::string_view name) const;
  /// The parts of all alternatives of all fields, each once, in order of first appearance.
  std::vector<std::string> needed_parts() const;

  bool operator==(const FieldMap&) const = default;
};

/// What makes the typed samples of a dataset.
struct TypedSamples {
  SampleType type = SampleType::kCrude;
  FieldMap field_map = {};  ///< empty for kCrude

  bool operator==(const TypedSamples&) const = default;
};

/// Throws Error (kInvalidArgument) if the map has a field that the type does not have, or twice, or
/// lacks a required one; the message lists the fields of the type.
void validate(const TypedSamples& samples);

}  // namespace energon
