#include "io/dataset/sample_type.h"

#include <algorithm>
#include <array>

namespace energon {
namespace {

using Content = FieldContent;

constexpr bool kRequired = true;
constexpr bool kOptional = false;

constexpr std::array<SampleField, 2> kCaptioningFields = {{
    {"image", kRequired, Content::kImage},
    {"caption", kRequired, Content::kText},
}};

constexpr std::array<SampleField, 1> kImageFields = {{{"image", kRequired, Content::kImage}}};

constexpr std::array<SampleField, 3> kImageClassificationFields = {{
    {"image", kRequired, Content::kImage},
    {"label", kOptional, Content::kInteger},
    {"label_name", kOptional, Content::kText},
}};

constexpr std::array<SampleField, 1> kInterleavedFields = {
    {{"sequence", kRequired, Content::kSequence}}};

constexpr std::array<SampleField, 4> kMultipleChoiceVqaFields = {{
    {"image", kRequired, Content::kImage},
    {"context", kRequired, Content::kText},
    {"choices", kOptional, Content::kTexts},
    {"correct_choice_idx", kOptional, Content::kInteger},
}};

constexpr std::array<SampleField, 11> kOcrFields = {{
    {"image", kRequired, Content::kImage},
    {"text", kRequired, Content::kText},
    {"block_boxes", kOptional, Content::kBoxes},
    {"block_classes", kOptional, Content::kClasses},
    {"block_text", kOptional, Content::kTexts},
    {"lines_boxes", kOptional, Content::kBoxes},
    {"lines_text", kOptional, Content::kTexts},
    {"words_boxes", kOptional, Content::kBoxes},
    {"words_text", kOptional, Content::kTexts},
    {"chars_boxes", kOptional, Content::kBoxes},
    {"chars_text", kOptional, Content::kTexts},
}};

constexpr std::array<SampleField, 6> kSimilarityInterleavedFields = {{
    {"images", kRequired, Content::kImages},
    {"texts", kRequired, Content::kTexts},
    {"audio", kOptional, Content::kSound},
    {"video", kOptional, Content::kVideo},
    {"similarity_matrix", kOptional, Content::kMatrix},
    {"matched_text_indices", kOptional, Content::kIntegers},
}};

constexpr std::array<SampleField, 1> kTextFields = {{{"text", kRequired, Content::kText}}};

constexpr std::array<SampleField, 4> kVideoQaFields = {{
    {"video", kRequired, Content::kVideo},
    {"context", kRequired, Content::kText},
    {"answers", kOptional, Content::kTexts},
    {"answer_weights", kOptional, Content::kWeights},
}};

constexpr std::array<SampleField, 4> kVqaFields = {{
    {"image", kRequired, Content::kImage},
    {"context", kRequired, Content::kText},
    {"answers", kOptional, Content::kTexts},
    {"answer_weights", kOptional, Content::kWeights},
}};

constexpr std::array<SampleField, 7> kVqaOcrFields = {{
    {"image", kRequired, Content::kImage},
    {"context", kRequired, Content::kText},
    {"text", kRequired, Content::kText},
    {"answers", kOptional, Content::kTexts},
    {"answer_weights", kOptional, Content::kWeights},
    {"words_boxes", kOptional, Content::kBoxes},
    {"words_text", kOptional, Content::kTexts},
}};

constexpr std::array<SampleType, 12> kTypes = {
    SampleType::kCaptioning,
    SampleType::kImage,
    SampleType::kImageClassification,
    SampleType::kInterleaved,
    SampleType::kMultipleChoiceVqa,
    SampleType::kOcr,
    SampleType::kSimilarityInterleaved,
    SampleType::kText,
    SampleType::kVideoQa,
    SampleType::kVqa,
    SampleType::kVqaOcr,
    SampleType::kCrude,
};

constexpr std::string_view kSample = "Sample";
constexpr std::string_view kWebdataset = "Webdataset";

}  // namespace

std::string_view to_string(FieldContent content) {
  switch (content) {
    case Content::kImage:
      return "an image";
    case Content::kImages:
      return "a list of images";
    case Content::kText:
      return "a text";
    case Content::kTexts:
      return "a list of texts";
    case Content::kInteger:
      return "a whole number";
    case Content::kIntegers:
      return "a list of whole numbers";
    case Content::kWeights:
      return "a list of numbers";
    case Content::kBoxes:
      return "a list of boxes";
    case Content::kClasses:
      return "a list of whole numbers or texts";
    case Content::kMatrix:
      return "a matrix of numbers";
    case Content::kSequence:
      return "a list of images and texts";
    case Content::kSound:
      return "a file of sound";
    case Content::kVideo:
      return "a file of video";
  }
  return "";
}

std::span<const SampleType> all_sample_types() { return kTypes; }

std::string_view class_name(SampleType type) {
  switch (type) {
    case SampleType::kCaptioning:
      return "CaptioningSample";
    case SampleType::kImage:
      return "ImageSample";
    case SampleType::kImageClassification:
      return "ImageClassificationSample";
    case SampleType::kInterleaved:
      return "InterleavedSample";
    case SampleType::kMultipleChoiceVqa:
      return "MultiChoiceVQASample";
    case SampleType::kOcr:
      return "OCRSample";
    case SampleType::kSimilarityInterleaved:
      return "SimilarityInterleavedSample";
    case SampleType::kText:
      return "TextSample";
    case SampleType::kVideoQa:
      return "VidQASample";
    case SampleType::kVqa:
      return "VQASample";
    case SampleType::kVqaOcr:
      return "VQAOCRSample";
    case SampleType::kCrude:
      return "CrudeSample";
  }
  return "";
}

std::optional<SampleType> sample_type_of_class(std::string_view name) {
  for (const std::string_view suffix : {kSample, kWebdataset}) {
    if (!name.ends_with(suffix)) {
      continue;
    }
    const std::string_view stem = name.substr(0, name.size() - suffix.size());
    for (const SampleType type : kTypes) {
      const std::string_view known = class_name(type);
      if (stem == known.substr(0, known.size() - kSample.size())) {
        return type;
      }
    }
  }
  return std::nullopt;
}

std::span<const SampleField> fields_of(SampleType type) {
  switch (type) {
    case SampleType::kCaptioning:
      return kCaptioningFields;
    case SampleType::kImage:
      return kImageFields;
    case SampleType::kImageClassification:
      return kImageClassificationFields;
    case SampleType::kInterleaved:
      return kInterleavedFields;
    case SampleType::kMultipleChoiceVqa:
      return kMultipleChoiceVqaFields;
    case SampleType::kOcr:
      return kOcrFields;
    case SampleType::kSimilarityInterleaved:
      return kSimilarityInterleavedFields;
    case SampleType::kText:
      return kTextFields;
    case SampleType::kVideoQa:
      return kVideoQaFields;
    case SampleType::kVqa:
      return kVqaFields;
    case SampleType::kVqaOcr:
      return kVqaOcrFields;
    case SampleType::kCrude:
      return {};
  }
  return {};
}

const SampleField* find_field(SampleType type, std::string_view name) {
  const std::span<const SampleField> fields = fields_of(type);
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const SampleField& field) { return field.name == name; });
  return found == fields.end() ? nullptr : &*found;
}

}  // namespace energon
