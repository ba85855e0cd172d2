#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "io/recipe/typed_samples.h"
#include "tests/support/error_of.h"

using energon::ErrorCode;
using energon::FieldExpression;
using energon::FieldMap;
using energon::FieldStep;
using energon::parse_field_expression;
using energon::SampleType;
using energon::to_text;
using energon::TypedSamples;
using energon::testing::error_of;

namespace {

std::string refused_map(const std::string& text) {
  return error_of([&] { parse_field_expression(text); }, ErrorCode::kInvalidArgument);
}

FieldMap map_of(const std::vector<std::pair<std::string, std::string>>& fields) {
  FieldMap map;
  for (const auto& [name, text] : fields) {
    map.fields.push_back({.name = name, .expression = parse_field_expression(text)});
  }
  return map;
}

std::string refused_map(SampleType type,
                        const std::vector<std::pair<std::string, std::string>>& fields) {
  return error_of(
      [&] {
        validate(TypedSamples{type, map_of(fields)});
      },
      ErrorCode::kInvalidArgument);
}

}  // namespace

TEST_CASE("an expression is alternatives of a part and steps", "[io][field_map]") {
  CHECK(parse_field_expression("txt") == FieldExpression{{{.part = "txt"}}});
  CHECK(parse_field_expression("jpg,seg.png") ==
        FieldExpression{{{.part = "jpg"}, {.part = "seg.png"}}});
  CHECK(parse_field_expression("json[a b][0][-1][01][1x],cls") ==
        FieldExpression{
            {{.part = "json",
              .steps = {FieldStep{"a b", std::nullopt}, FieldStep{"0", 0}, FieldStep{"-1", -1},
                        FieldStep{"01", 1}, FieldStep{"1x", std::nullopt}}},
             {.part = "cls"}}});
  // A position that no list can have is just a name.
  CHECK_FALSE(parse_field_expression("json[99999999999999999999]").alternatives[0].steps[0].index);
}

TEST_CASE("an expression has one text form", "[io][field_map]") {
  for (const char* const text : {"txt", "jpg,png,webp", "json[captions][0]", "json[0][value],txt",
                                 "a[b][c][d],e[f]", "json[a=b:{c}]"}) {
    CAPTURE(text);
    CHECK(to_text(parse_field_expression(text)) == text);
  }
}

TEST_CASE("an invalid expression is an error with the position of the wrong character",
          "[io][field_map]") {
  CHECK_THAT(refused_map(""), Catch::Contains("character 1") && Catch::Contains("found the end"));
  CHECK_THAT(refused_map("jpg,"), Catch::Contains("'jpg,'") && Catch::Contains("character 5"));
  CHECK_THAT(refused_map(",jpg"), Catch::Contains("character 1") && Catch::Contains("found ','"));
  CHECK_THAT(refused_map("[a]"), Catch::Contains("expected the name of a part, found '['"));
  CHECK_THAT(refused_map("json["), Catch::Contains("character 6"));
  CHECK_THAT(refused_map("json[]"), Catch::Contains("expected a name or a position, found ']'"));
  CHECK_THAT(refused_map("json[a"), Catch::Contains("expected ']', found the end"));
  CHECK_THAT(refused_map("json[a,b]"), Catch::Contains("expected ']', found ','"));
  CHECK_THAT(refused_map("json[a[b]]"), Catch::Contains("character 7"));
  CHECK_THAT(refused_map("json]"), Catch::Contains("expected ',' or '[', found ']'"));
  CHECK_THAT(refused_map("json[a]b"),
             Catch::Contains("character 8") && Catch::Contains("found 'b'"));
  CHECK_THAT(refused_map("jpg, png"),
             Catch::Contains("character 5") && Catch::Contains("no blank"));
  CHECK_THAT(refused_map("jpg ,png"),
             Catch::Contains("character 4") && Catch::Contains("no blank"));
  CHECK_THAT(refused_map(std::string("\n[\x1b", 3)), Catch::Contains("\\x0a[\\x1b"));
  // Every text is parsed or refused.
  const std::string characters = "a,[]0 -";
  for (std::size_t number = 0; number < 7 * 7 * 7 * 7 * 7; ++number) {
    CAPTURE(number);
    std::string text;
    for (std::size_t rest = number; rest > 0; rest /= 7) {
      text += characters[rest % 7];
    }
    try {
      const std::string again = to_text(parse_field_expression(text));
      CHECK(again == text);
    } catch (const energon::Error& error) {
      CHECK(error.code() == ErrorCode::kInvalidArgument);
    }
  }
}

TEST_CASE("the parts that a map needs are those of all alternatives, each once",
          "[io][field_map]") {
  const FieldMap map =
      map_of({{"image", "jpg,png"}, {"caption", "json[a],txt,json[b]"}, {"x", "png"}});
  CHECK(map.needed_parts() == std::vector<std::string>{"jpg", "png", "json", "txt"});
  REQUIRE(map.find("caption") != nullptr);
  CHECK(map.find("caption")->alternatives.size() == 3);
  CHECK(map.find("label") == nullptr);
  CHECK(FieldMap().needed_parts().empty());
}

TEST_CASE("a map must have the fields of its type", "[io][field_map]") {
  const TypedSamples good{SampleType::kImageClassification,
                          map_of({{"image", "jpg"}, {"label", "cls"}})};
  CHECK_NOTHROW(validate(good));
  CHECK_NOTHROW(validate(TypedSamples()));
  CHECK_THAT(refused_map(SampleType::kCaptioning, {{"image", "jpg"}}),
             Catch::Contains("lacks 'caption'") &&
                 Catch::Contains("fields of CaptioningSample are image, caption"));
  CHECK_THAT(refused_map(SampleType::kVqa, {{"image", "jpg"}, {"question", "txt"}}),
             Catch::Contains("has 'question'") && Catch::Contains("answers (optional)"));
  CHECK_THAT(refused_map(SampleType::kText, {{"text", "txt"}, {"text", "json[t]"}}),
             Catch::Contains("has 'text' twice"));
  CHECK_THAT(refused_map(SampleType::kCrude, {{"text", "txt"}}), Catch::Contains("has no fields"));
}
