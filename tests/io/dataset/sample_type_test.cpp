#include <set>
#include <string>

#include <catch2/catch.hpp>

#include "io/recipe/typed_samples.h"

using energon::class_name;
using energon::fields_of;
using energon::find_field;
using energon::sample_type_of_class;
using energon::SampleField;
using energon::SampleType;

namespace {

// "name" and "name*", if it is optional, as the reference of Energon writes it.
std::string fields(SampleType type) {
  std::string text;
  for (const SampleField& field : fields_of(type)) {
    text += (text.empty() ? "" : " ") + std::string(field.name) + (field.is_required ? "" : "*");
  }
  return text;
}

}  // namespace

TEST_CASE("the fields of sample types are Energon's", "[io][sample_type]") {
  CHECK(fields(SampleType::kCaptioning) == "image caption");
  CHECK(fields(SampleType::kImage) == "image");
  CHECK(fields(SampleType::kImageClassification) == "image label* label_name*");
  CHECK(fields(SampleType::kInterleaved) == "sequence");
  CHECK(fields(SampleType::kMultipleChoiceVqa) == "image context choices* correct_choice_idx*");
  CHECK(fields(SampleType::kOcr) ==
        "image text block_boxes* block_classes* block_text* lines_boxes* lines_text* words_boxes* "
        "words_text* chars_boxes* chars_text*");
  CHECK(fields(SampleType::kSimilarityInterleaved) ==
        "images texts audio* video* similarity_matrix* matched_text_indices*");
  CHECK(fields(SampleType::kText) == "text");
  CHECK(fields(SampleType::kVideoQa) == "video context answers* answer_weights*");
  CHECK(fields(SampleType::kVqa) == "image context answers* answer_weights*");
  CHECK(fields(SampleType::kVqaOcr) ==
        "image context text answers* answer_weights* words_boxes* words_text*");
  CHECK(fields(SampleType::kCrude).empty());
}

TEST_CASE("the name of a sample class, new or old, gives its type", "[io][sample_type]") {
  std::set<std::string_view> names;
  for (const SampleType type : energon::all_sample_types()) {
    CAPTURE(type);
    names.insert(class_name(type));
    CHECK(sample_type_of_class(class_name(type)) == type);
  }
  CHECK(names.size() == 12);
  CHECK(sample_type_of_class("CaptioningWebdataset") == SampleType::kCaptioning);
  CHECK(sample_type_of_class("VidQAWebdataset") == SampleType::kVideoQa);
  CHECK(sample_type_of_class("MultiChoiceVQAWebdataset") == SampleType::kMultipleChoiceVqa);
  CHECK(sample_type_of_class("CrudeWebdataset") == SampleType::kCrude);
  for (const char* const name : {"", "Sample", "Captioning", "captioningsample", "XSample",
                                 "CaptioningSampleSample", "StandardWebdataset"}) {
    CAPTURE(name);
    CHECK_FALSE(sample_type_of_class(name));
  }
}

TEST_CASE("a field is found by its name", "[io][sample_type]") {
  const SampleField* const field = find_field(SampleType::kOcr, "words_boxes");
  REQUIRE(field != nullptr);
  CHECK(field->content == energon::FieldContent::kBoxes);
  CHECK(to_string(field->content) == "a list of boxes");
  CHECK(find_field(SampleType::kOcr, "boxes") == nullptr);
  CHECK(find_field(SampleType::kCrude, "image") == nullptr);
}
