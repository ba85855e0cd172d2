// The types of samples that a dataset.yaml may name, with their fields.
//
// Names and fields are those of the dataclasses of Energon 7.4. What every sample has (key, restore
// key, subflavors, sources) is not listed. wrappers/types has a struct for each type.

#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace energon {

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

}  // namespace energon
