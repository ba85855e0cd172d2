// The sample types that a dataset.yaml may name, and its field map, which defines from which parts
// the fields of such a sample are made.
//
// Types have the names and fields of the dataclasses of Energon 7.4, without the fields of every
// sample (key, restore key, subflavors, sources). wrappers/types has a struct for each type.

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
  /// The parts themselves, by name; has no fields.
  kCrude,
};

/// Content of a field.
enum class FieldContent : std::uint8_t {
  kImage,     ///< a tensor, as determined by the decoder's image mode
  kImages,    ///< a list of images
  kText,      ///< UTF-8
  kTexts,     ///< a list of UTF-8 strings
  kInteger,   ///< an integer
  kIntegers,  ///< a list of integers
  kWeights,   ///< float32 (N): one weight per answer
  kBoxes,     ///< float32 (N, 4 or 5): x, y, width, height[, confidence], in pixels
  kClasses,   ///< int64 (N), or a list of N strings
  kMatrix,    ///< float32 (images, texts)
  kSequence,  ///< a list of images and strings
  kSound,     ///< bytes for an AvDecoder
  kVideo,     ///< bytes for an AvDecoder
};

/// A description for messages: "a string", "a list of strings".
std::string_view to_string(FieldContent content);

struct SampleField {
  std::string_view name;
  bool is_required;
  FieldContent content;
};

/// All types, in the order of the enum.
std::span<const SampleType> all_sample_types();

/// The name of Energon's class: "CaptioningSample".
std::string_view class_name(SampleType type);

/// The type of a class of samples ("CaptioningSample") or of an older class of datasets
/// ("CaptioningWebdataset"); nullopt for other names.
std::optional<SampleType> sample_type_of_class(std::string_view name);

/// In the order of the class. Empty for kCrude.
std::span<const SampleField> fields_of(SampleType type);

/// Null if `type` has no field `name`.
const SampleField* find_field(SampleType type, std::string_view name);

// --- The field map ---
//
// Defines from which parts the fields are made:
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
  /// The list position that `name` denotes; nullopt if it is not an integer.
  std::optional<std::int64_t> index = std::nullopt;

  bool operator==(const FieldStep&) const = default;
};

/// One alternative.
struct FieldPath {
  std::string part = {};
  std::vector<FieldStep> steps = {};

  bool operator==(const FieldPath&) const = default;
};

/// At least one alternative; the first that a sample has is used.
struct FieldExpression {
  std::vector<FieldPath> alternatives = {};

  bool operator==(const FieldExpression&) const = default;
};

/// Throws Error (kInvalidArgument) with the expression, the position of the wrong character (from
/// 1) and what was expected there.
FieldExpression parse_field_expression(std::string_view text);

/// The text form, which parse_field_expression() parses back.
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

/// Definition of the typed samples of a dataset.
struct TypedSamples {
  SampleType type = SampleType::kCrude;
  FieldMap field_map = {};  ///< empty for kCrude

  bool operator==(const TypedSamples&) const = default;
};

/// Throws Error (kInvalidArgument) if the map has an unknown or duplicate field, or lacks a
/// required one; the message lists the fields of the type.
void validate(const TypedSamples& samples);

}  // namespace energon
