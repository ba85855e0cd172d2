#include "wrappers/types/typed_structs.h"

#include <cstring>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "energon/sample/buffer_allocator.h"
#include "tests/support/error_of.h"

using energon::DType;
using energon::ErrorCode;
using energon::List;
using energon::Mapping;
using energon::Null;
using energon::Sample;
using energon::SharedBytes;
using energon::Tensor;
using energon::Value;
using energon::testing::error_of;
using Shape = std::vector<std::int64_t>;

namespace {

template <class Number>
Tensor tensor(DType dtype, const Shape& shape, const std::vector<Number>& numbers) {
  energon::NewTensor made = energon::new_tensor(dtype, shape, energon::heap_memory());
  if (!numbers.empty()) {
    std::memcpy(made.bytes.data(), numbers.data(), made.bytes.size());
  }
  return made.tensor;
}

const Tensor kImage = tensor<std::uint8_t>(DType::kUInt8, {3, 1, 1}, {1, 2, 3});

Sample sample_of(const Mapping& fields) {
  Sample sample;
  sample.keys.push_back("k");
  sample.fields = fields;
  return sample;
}

std::vector<float> floats(const Tensor& tensor) {
  REQUIRE(tensor.dtype == DType::kFloat32);
  std::vector<float> numbers(tensor.data.size() / sizeof(float));
  if (!numbers.empty()) {
    std::memcpy(numbers.data(), tensor.data.view.data(), tensor.data.size());
  }
  return numbers;
}

SharedBytes bytes(const char* text) { return {energon::as_bytes(text), nullptr}; }

// The sample after a conversion to the struct and back.
template <class Struct>
Sample there_and_back(const Mapping& fields) {
  return Struct::from(sample_of(fields)).to_sample();
}

template <class Struct>
std::string refused(const Mapping& fields, ErrorCode code = ErrorCode::kInvalidArgument) {
  return error_of([&] { Struct::from(sample_of(fields)); }, code);
}

const Value kBoxes = List{List{std::int64_t{1}, 2.5, std::int64_t{3}, std::int64_t{4}},
                          List{0.0, 0.5, std::int64_t{-1}, 1e3}};

}  // namespace

TEST_CASE("a struct has the fields of the sample, and returns them", "[wrappers][types]") {
  const std::vector<Mapping> fields = {
      {{"image", kImage}},
      {{"image", kImage}, {"caption", "text"}},
      {{"image", kImage}, {"label", std::int64_t{3}}, {"label_name", "three"}},
      {{"text", "text"}},
      {{"sequence", List{kImage, "text", kImage}}},
      {{"images", List{kImage}},
       {"texts", List{"a", "b"}},
       {"audio", bytes("sound")},
       {"video", bytes("film")},
       {"similarity_matrix", tensor<float>(DType::kFloat32, {1, 2}, {0.25F, 1})},
       {"matched_text_indices", List{std::int64_t{1}}}},
      {{"image", kImage},
       {"context", "q"},
       {"answers", List{"a", "b"}},
       {"answer_weights", tensor<float>(DType::kFloat32, {2}, {0.5F, 1})}},
      {{"image", kImage},
       {"context", "q"},
       {"choices", List{"a", "b"}},
       {"correct_choice_idx", std::int64_t{1}}},
      {{"video", bytes("film")}, {"context", "q"}, {"answers", List{"a"}}},
      {{"image", kImage},
       {"text", "t"},
       {"block_boxes", tensor<float>(DType::kFloat32, {1, 4}, {1, 2, 3, 4})},
       {"block_classes", List{"title"}},
       {"block_text", List{"t"}},
       {"lines_boxes", tensor<float>(DType::kFloat32, {1, 5}, {1, 2, 3, 4, 0.5F})},
       {"lines_text", List{"t"}},
       {"words_boxes", tensor<float>(DType::kFloat32, {0, 4}, {})},
       {"words_text", List{}},
       {"chars_text", List{"t"}}},
      {{"image", kImage},
       {"context", "q"},
       {"text", "t"},
       {"answers", List{}},
       {"answer_weights", tensor<float>(DType::kFloat32, {0}, {})},
       {"words_boxes", tensor<float>(DType::kFloat32, {1, 4}, {1, 2, 3, 4})},
       {"words_text", List{"t"}}},
  };
  const auto check = [&](const Sample& again, std::size_t i) {
    INFO(i);
    CHECK(again.keys.empty());  // the stage adds key and sources
    CHECK(digest(again) == digest(sample_of(fields[i])));
  };
  check(there_and_back<energon::ImageSample>(fields[0]), 0);
  check(there_and_back<energon::CaptioningSample>(fields[1]), 1);
  check(there_and_back<energon::ImageClassificationSample>(fields[2]), 2);
  check(there_and_back<energon::TextSample>(fields[3]), 3);
  check(there_and_back<energon::InterleavedSample>(fields[4]), 4);
  check(there_and_back<energon::SimilarityInterleavedSample>(fields[5]), 5);
  check(there_and_back<energon::VqaSample>(fields[6]), 6);
  check(there_and_back<energon::MultipleChoiceVqaSample>(fields[7]), 7);
  check(there_and_back<energon::VideoQaSample>(fields[8]), 8);
  check(there_and_back<energon::OcrSample>(fields[9]), 9);
  check(there_and_back<energon::VqaOcrSample>(fields[10]), 10);
}

TEST_CASE("optional fields may be missing or null", "[wrappers][types]") {
  const auto typed = energon::OcrSample::from(sample_of(
      {{"image", kImage}, {"text", "t"}, {"words_boxes", Null()}, {"block_classes", Null()}}));
  CHECK(typed.key == "k");
  CHECK_FALSE(typed.words.boxes);
  CHECK_FALSE(typed.chars.text);
  CHECK(std::holds_alternative<std::monostate>(typed.block_classes));
  CHECK(typed.to_sample().fields.size() == 2);
  CHECK(energon::MultipleChoiceVqaSample::from(sample_of({{"image", kImage}, {"context", "q"}}))
            .correct_choice_idx == 0);
}

TEST_CASE("boxes and weights of JSON become float32", "[wrappers][types]") {
  const auto typed = energon::OcrSample::from(
      sample_of({{"image", kImage},
                 {"text", "t"},
                 {"words_boxes", kBoxes},
                 {"lines_boxes", List{}},
                 {"chars_boxes", tensor<double>(DType::kFloat64, {1, 5}, {1, 2, 3, 4, 0.5})},
                 {"block_boxes", tensor<std::int64_t>(DType::kInt64, {1, 4}, {1, 2, 3, -4})},
                 {"block_classes", List{std::int64_t{7}}}}));
  CHECK(typed.words.boxes->shape == Shape{2, 4});
  CHECK(floats(*typed.words.boxes) == std::vector<float>{1, 2.5F, 3, 4, 0, 0.5F, -1, 1000});
  CHECK(typed.lines.boxes->shape == Shape{0, 4});
  CHECK(floats(*typed.chars.boxes) == std::vector<float>{1, 2, 3, 4, 0.5F});
  CHECK(floats(*typed.block.boxes) == std::vector<float>{1, 2, 3, -4});
  CHECK(std::get<std::vector<std::int64_t>>(typed.block_classes) == std::vector<std::int64_t>{7});
  const auto vqa = energon::VqaSample::from(sample_of(
      {{"image", kImage}, {"context", "q"}, {"answer_weights", List{1.0, std::int64_t{0}}}}));
  CHECK(floats(*vqa.answer_weights) == std::vector<float>{1, 0});
}

TEST_CASE("a field of the wrong kind is refused with type, field and key", "[wrappers][types]") {
  CHECK_THAT(refused<energon::CaptioningSample>({{"image", kImage}}, ErrorCode::kNotFound),
             Catch::Contains("field 'caption' of CaptioningSample") &&
                 Catch::Contains("available: image") && Catch::Contains("sample: k"));
  CHECK_THAT(refused<energon::ImageSample>({{"image", "text"}}),
             Catch::Contains("a string of 4 bytes"));
  CHECK_THAT(refused<energon::ImageClassificationSample>({{"image", kImage}, {"label", "x"}}),
             Catch::Contains("field 'label'"));
  CHECK_THAT(refused<energon::VqaSample>(
                 {{"image", kImage}, {"context", "q"}, {"answers", List{"a", std::int64_t{1}}}}),
             Catch::Contains("field 'answers'"));
  CHECK_THAT(refused<energon::VideoQaSample>({{"video", Mapping{}}, {"context", "q"}}),
             Catch::Contains("field 'video' of VidQASample"));
  CHECK_THAT(refused<energon::InterleavedSample>({{"sequence", List{"a", std::int64_t{1}}}}),
             Catch::Contains("item 1 is the integer 1"));
  CHECK_THAT(
      refused<energon::SimilarityInterleavedSample>({{"images", List{"a"}}, {"texts", List{}}}),
      Catch::Contains("item 0 is a string of 1 bytes"));
  CHECK_THAT(refused<energon::SimilarityInterleavedSample>(
                 {{"images", List{}}, {"texts", List{}}, {"matched_text_indices", List{1.5}}}),
             Catch::Contains("a list of whole numbers, but item 0 is the number 1.5"));
}

TEST_CASE("boxes of the wrong form are refused", "[wrappers][types]") {
  const auto with = [](Value boxes) {
    return refused<energon::OcrSample>(
        {{"image", kImage}, {"text", "t"}, {"words_boxes", std::move(boxes)}});
  };
  // Not List{List{…}}, which some compilers treat as a copy of the inner list.
  CHECK_THAT(with(List(1, List{1.0, 2.0, 3.0})), Catch::Contains("found 3 numbers a box"));
  CHECK_THAT(with(List{List{1.0, 2.0, 3.0, 4.0}, List{1.0, 2.0, 3.0, 4.0, 5.0}}),
             Catch::Contains("all of one length"));
  CHECK_THAT(with(List(1, List{1.0, 2.0, 3.0, "4"})),
             Catch::Contains("a list of lists of numbers"));
  CHECK_THAT(with(List{1.0}), Catch::Contains("it holds a list of 1, expected"));
  CHECK_THAT(with(std::string("1,2,3,4")), Catch::Contains("a string of 7 bytes"));
  CHECK_THAT(with(tensor<float>(DType::kFloat32, {4}, {1, 2, 3, 4})),
             Catch::Contains("float32 (4)"));
  CHECK_THAT(with(tensor<float>(DType::kFloat32, {0, 3}, {})),
             Catch::Contains("found 3 numbers a box"));
  CHECK_THAT(with(tensor<std::uint16_t>(DType::kFloat16, {1, 4}, {1, 2, 3, 4})),
             Catch::Contains("float16 (1, 4)"));
}
