// The types of samples that a dataset.yaml may name, and its field map, which says from which parts
// the fields of such a sample are made.
//
// Names and fields of the types are those of the dataclasses of Energon 7.4. What every sample has
// (key, restore key, subflavors, sources) is not listed. wrappers/types has a struct for each type.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace energon {

// --- Types ---

enum class SampleType : std::uint8_t {
  kCaptioning,
  kImage,
  kImageClassification,
  kInterleaved,
  kMultipleChoiceVqa,
  kOcr,
  kSimilarityInterleaved,
  kText,
  kVideoQa,
  kVqa,
  kVqaOcr,
  /// The parts themselves, by their names: has no fields of its own.
  kCrude,
};

/// What a field holds.
enum class FieldContent : std::uint8_t {
  kImage,     ///< a tensor, as the image mode of the decoder says
  kImages,    ///< a list of them
  kText,      ///< UTF-8
  kTexts,     ///< a list of texts
  kInteger,   ///< a whole number
  kIntegers,  ///< a list of whole numbers
  kWeights,   ///< float32 (N): one for each answer
  kBoxes,     ///< float32 (N, 4 or 5): x, y, width, height[, confidence], in pixels
  kClasses,   ///< int64 (N), or a list of N texts
  kMatrix,    ///< float32 (images, texts)
  kSequence,  ///< a list of images and texts
  kSound,     ///< bytes for an AvDecoder
  kVideo,     ///< bytes for an AvDecoder
};

/// For people: "a text", "a list of texts".
std::string_view to_string(FieldContent content);

struct SampleField {
  std::string_view name;
  bool is_required;
  FieldContent content;
};

/// All types, in the order of the enumeration.
std::span<const SampleType> all_sample_types();

/// The class in Energon: "CaptioningSample".
std::string_view class_name(SampleType type);

/// The type of a class of samples ("CaptioningSample") or of an older class of datasets
/// ("CaptioningWebdataset"); nothing for other names.
std::optional<SampleType> sample_type_of_class(std::string_view name);

/// In the order of the class. Empty for kCrude.
std::span<const SampleField> fields_of(SampleType type);

/// Null if `type` has no field `name`.
const SampleField* find_field(SampleType type, std::string_view name);

// --- The field map ---
//
// From which parts the fields are made:
//
//   image: jpg,png                the part jpg or, where there is none, the part png
//   caption: json[captions][0]    in the part json, the first of its "captions"
//
// An expression is alternatives with commas between them, each a part and any number of steps in
// brackets. A step is the name of a member or, where the value is a list, a position; -1 is the
// last one. The grammar is Energon's. Blanks belong to the names, so none are allowed at the ends
// of an alternative.

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
