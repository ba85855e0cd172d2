#include "io/recipe/typed_samples.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "io/error.h"

namespace energon {

// --- Types ---

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
      return "a string";
    case Content::kTexts:
      return "a list of strings";
    case Content::kInteger:
      return "an integer";
    case Content::kIntegers:
      return "a list of integers";
    case Content::kWeights:
      return "a list of numbers";
    case Content::kBoxes:
      return "a list of boxes";
    case Content::kClasses:
      return "a list of integers or strings";
    case Content::kMatrix:
      return "a matrix of numbers";
    case Content::kSequence:
      return "a list of images and strings";
    case Content::kSound:
      return "an audio file";
    case Content::kVideo:
      return "a video file";
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

// --- The field map ---

namespace {

class ExpressionParser {
 public:
  explicit ExpressionParser(std::string_view text) : text_(text) {}

  FieldExpression parse() {
    FieldExpression expression;
    expression.alternatives.push_back(path());
    while (at_ < text_.size()) {
      ++at_;  // the comma
      expression.alternatives.push_back(path());
    }
    return expression;
  }

 private:
  FieldPath path() {
    const std::size_t begin = at_;
    FieldPath path{.part = name(",[]", "the name of a part")};
    while (at_ < text_.size() && text_[at_] == '[') {
      ++at_;
      FieldStep step{.name = name(",[]", "a name or a position")};
      if (at_ == text_.size() || text_[at_] != ']') {
        fail("expected ']'");
      }
      ++at_;
      step.index = position(step.name);
      path.steps.push_back(std::move(step));
    }
    if (at_ < text_.size() && text_[at_] != ',') {
      fail(path.steps.empty() ? "expected ',' or '['" : "expected ',', '[' or the end");
    }
    check_ends(begin);
    return path;
  }

  std::string name(std::string_view stops, std::string_view what) {
    const std::size_t begin = at_;
    at_ = std::min(text_.find_first_of(stops, at_), text_.size());
    if (at_ == begin) {
      fail(fmt::format("expected {}", what));
    }
    return std::string(text_.substr(begin, at_ - begin));
  }

  static std::optional<std::int64_t> position(std::string_view name) {
    std::int64_t index = 0;
    const char* const end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data(), end, index);
    return error == std::errc() && stop == end ? std::optional(index) : std::nullopt;
  }

  // Energon would look for a part with the blank in its name.
  void check_ends(std::size_t begin) {
    const std::size_t end = at_;
    if (text_[begin] == ' ' || text_[end - 1] == ' ') {
      at_ = text_[begin] == ' ' ? begin : end - 1;
      fail("expected no blank between alternatives");
    }
  }

  [[noreturn]] void fail(std::string_view problem) const {
    const std::string got =
        at_ < text_.size() ? fmt::format("'{}'", printable(text_.substr(at_, 1))) : "the end";
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("invalid expression '{}' at character {}: {}, found {}; examples of "
                            "expressions are jpg,png and json[captions][0]",
                            printable(text_), at_ + 1, problem, got));
  }

  const std::string_view text_;
  std::size_t at_ = 0;
};

std::string describe_fields(SampleType type) {
  std::vector<std::string> names;
  for (const SampleField& field : fields_of(type)) {
    names.push_back(fmt::format("{}{}", field.name, field.is_required ? "" : " (optional)"));
  }
  return names.empty()
             ? fmt::format("{} has no fields", class_name(type))
             : fmt::format("the fields of {} are {}", class_name(type), fmt::join(names, ", "));
}

[[noreturn]] void refuse_map(SampleType type, const std::string& problem) {
  throw Error(ErrorCode::kInvalidArgument, fmt::format("{}; {}", problem, describe_fields(type)));
}

}  // namespace

FieldExpression parse_field_expression(std::string_view text) {
  return ExpressionParser(text).parse();
}

std::string to_text(const FieldPath& path) {
  std::string text = path.part;
  for (const FieldStep& step : path.steps) {
    text += fmt::format("[{}]", step.name);
  }
  return text;
}

std::string to_text(const FieldExpression& expression) {
  std::string text;
  for (const FieldPath& path : expression.alternatives) {
    text += (text.empty() ? "" : ",") + to_text(path);
  }
  return text;
}

const FieldExpression* FieldMap::find(std::string_view name) const {
  const auto found =
      std::find_if(fields.begin(), fields.end(), [&](const Field& f) { return f.name == name; });
  return found == fields.end() ? nullptr : &found->expression;
}

std::vector<std::string> FieldMap::needed_parts() const {
  std::vector<std::string> parts;
  for (const Field& field : fields) {
    for (const FieldPath& path : field.expression.alternatives) {
      if (std::find(parts.begin(), parts.end(), path.part) == parts.end()) {
        parts.push_back(path.part);
      }
    }
  }
  return parts;
}

void validate(const TypedSamples& samples) {
  const FieldMap& map = samples.field_map;
  for (const FieldMap::Field& field : map.fields) {
    if (find_field(samples.type, field.name) == nullptr) {
      refuse_map(samples.type, fmt::format("the field map has '{}'", printable(field.name)));
    }
    if (map.find(field.name) != &field.expression) {
      refuse_map(samples.type, fmt::format("the field map has '{}' twice", field.name));
    }
  }
  for (const SampleField& field : fields_of(samples.type)) {
    if (field.is_required && map.find(field.name) == nullptr) {
      refuse_map(samples.type, fmt::format("the field map lacks '{}'", field.name));
    }
  }
}

}  // namespace energon
