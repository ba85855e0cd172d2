#include "wrappers/stages/typed_samples.h"

#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/support/error_of.h"
#include "tests/wrappers/typed_dataset.h"

using energon::ErrorCode;
using energon::FieldMap;
using energon::Null;
using energon::Sample;
using energon::SampleDecoder;
using energon::SampleType;
using energon::SharedBytes;
using energon::TypedSampleMaker;
using energon::testing::error_of;
using energon::testing::small_png;
using Fields = std::vector<std::pair<std::string, std::string>>;

namespace {

SharedBytes shared(std::string text) {
  const auto owner = std::make_shared<const std::string>(std::move(text));
  return {energon::as_bytes(*owner), owner};
}

Sample sample_of(const Fields& parts) {
  Sample sample;
  sample.keys.push_back("the key");
  for (const auto& [name, text] : parts) {
    sample.fields.emplace_back(name, shared(text));
  }
  return sample;
}

Sample made(SampleType type, const Fields& map, const Fields& parts) {
  FieldMap fields;
  for (const auto& [name, text] : map) {
    fields.fields.push_back({.name = name, .expression = energon::parse_field_expression(text)});
  }
  Sample sample = sample_of(parts);
  TypedSampleMaker({.type = type, .field_map = fields}, SampleDecoder())
      .make(sample, energon::heap_memory());
  return sample;
}

// The string that an expression returns for these parts.
std::string text_of(const std::string& expression, const Fields& parts) {
  return std::string(made(SampleType::kText, {{"text", expression}}, parts).text("text"));
}

std::string refused(const std::string& expression, const Fields& parts,
                    ErrorCode code = ErrorCode::kNotFound) {
  return error_of([&] { text_of(expression, parts); }, code);
}

const Fields kParts = {{"json", R"({"a":{"b":["x","y"]},"n":null,"0":"zero","t":"text"})"},
                       {"txt", "plain"},
                       {"bad.json", "{"}};

}  // namespace

TEST_CASE("fields are made from parts and from values in them", "[wrappers][typed]") {
  const Sample sample =
      made(SampleType::kImageClassification,
           {{"label_name", "json[names][1]"}, {"label", "cls"}, {"image", "jpg"}},
           {{"jpg", small_png()}, {"json", R"({"names":["cat","dog"]})"}, {"cls", "1"}});
  REQUIRE(sample.fields.size() == 3);  // in the order of the type
  CHECK(sample.fields[0].first == "image");
  CHECK(sample.fields[1].first == "label");
  CHECK(sample.tensor("image").shape == std::vector<std::int64_t>{3, 1, 2});
  CHECK(sample.integer("label") == 1);
  CHECK(sample.text("label_name") == "dog");
  CHECK(sample.keys.front() == "the key");
}

TEST_CASE("a path descends into mappings by name and into lists by position", "[wrappers][typed]") {
  CHECK(text_of("json[a][b][0]", kParts) == "x");
  CHECK(text_of("json[a][b][-1]", kParts) == "y");
  CHECK(text_of("json[0]", kParts) == "zero");
  CHECK(text_of("txt", kParts) == "plain");
  CHECK_THAT(refused("json[a][b][2]", kParts), Catch::Contains("no [2] in a list of 2"));
  CHECK_THAT(refused("json[a][b][-3]", kParts), Catch::Contains("no [-3] in a list of 2"));
  CHECK_THAT(refused("json[a][b][x]", kParts), Catch::Contains("no [x] in a list of 2"));
  CHECK_THAT(refused("json[a][c]", kParts), Catch::Contains("no 'c' among b"));
  CHECK_THAT(refused("json[t][0]", kParts), Catch::Contains("[0] of a string of 4 bytes"));
  CHECK_THAT(refused("txt[a]", kParts), Catch::Contains("[a] of a string of 5 bytes"));
  CHECK_THAT(refused("jpg", kParts), Catch::Contains("'jpg' (no such part)"));
}

TEST_CASE("the first alternative that the sample has is used", "[wrappers][typed]") {
  CHECK(text_of("jpg,txt,json[t]", kParts) == "plain");
  CHECK(text_of("json[a][c],json[a][b][5],json[t]", kParts) == "text");
  const std::string none = refused("json[x],json[a][b][9],cls", kParts);
  CHECK_THAT(none, Catch::Contains("field 'text' of TextSample") &&
                       Catch::Contains("'json[x]' (no 'x' among a, n, 0, t)") &&
                       Catch::Contains("'json[a][b][9]'") &&
                       Catch::Contains("'cls' (no such part)") &&
                       Catch::Contains("field map: json, txt, bad.json") &&
                       Catch::Contains("sample: the key"));
}

TEST_CASE("optional fields are left out, and null is a value", "[wrappers][typed]") {
  const Sample sample =
      made(SampleType::kImageClassification,
           {{"image", "png"}, {"label", "cls,json[label]"}, {"label_name", "json[n]"}},
           {{"png", small_png()}, {"json", R"({"n":null})"}});
  REQUIRE(sample.fields.size() == 2);
  CHECK(sample.find("label") == nullptr);
  CHECK(std::holds_alternative<Null>(sample.at("label_name").base()));
}

TEST_CASE("only parts that a field uses are decoded", "[wrappers][typed]") {
  CHECK(text_of("txt,bad.json[a]", kParts) == "plain");
  CHECK_THAT(refused("bad.json[a],txt", kParts, ErrorCode::kCorruptData),
             Catch::Contains("field 'text' of TextSample: part 'bad.json'") &&
                 Catch::Contains("sample: the key"));
}

TEST_CASE("a part of several fields is decoded once", "[wrappers][typed]") {
  const Sample sample =
      made(SampleType::kCaptioning, {{"image", "png"}, {"caption", "png"}}, {{"png", small_png()}});
  CHECK(sample.tensor("image").data.view.data() == sample.tensor("caption").data.view.data());
}

TEST_CASE("crude samples have their parts decoded", "[wrappers][typed]") {
  const Sample sample = made(SampleType::kCrude, {}, {{"txt", "a"}, {"cls", "2"}, {"bin", "b"}});
  CHECK(sample.text("txt") == "a");
  CHECK(sample.integer("cls") == 2);
  CHECK(sample.bytes("bin").text() == "b");
}

TEST_CASE("wrong maps and modes are refused when the function is constructed",
          "[wrappers][typed]") {
  energon::PipelineLeaf leaf;
  leaf.name = "the leaf";
  leaf.typed = energon::TypedSamples{.type = SampleType::kText};
  CHECK_THAT(error_of([&] { energon::typed_samples({}, {leaf}); }, ErrorCode::kInvalidArgument),
             Catch::Contains("lacks 'text'") && Catch::Contains("the leaf"));
  CHECK_THROWS_WITH(energon::typed_samples({.image = "none"}, {}), Catch::Contains("'none'"));
}
