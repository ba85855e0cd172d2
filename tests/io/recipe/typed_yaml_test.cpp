#include <string>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "io/recipe/dataset_yaml.h"
#include "tests/support/error_of.h"
#include "tests/support/temp_dir.h"

using energon::dataset_yaml_of;
using energon::DatasetYaml;
using energon::ErrorCode;
using energon::parse_field_expression;
using energon::SampleType;
using energon::typed_samples_of;
using energon::TypedSamples;
using energon::testing::error_of;
using energon::testing::TempDir;

namespace {

DatasetYaml yaml_of(const std::string& text) {
  const TempDir folder;
  folder.write(".nv-meta/dataset.yaml", text);
  return energon::read_dataset_yaml(folder.path(), std::nullopt);
}

std::string refused_typed(const std::string& text, ErrorCode code = ErrorCode::kInvalidArgument) {
  // Only if typed samples are requested.
  const DatasetYaml yaml = yaml_of(text);
  CHECK_FALSE(yaml.warnings.empty());
  return error_of([&] { typed_samples_of(yaml); }, code);
}

const std::string kCaptioning =
    "sample_type: {__module__: megatron.energon, __class__: CaptioningSample}\n";

}  // namespace

TEST_CASE("sample_type and field_map of dataset.yaml make typed samples", "[io][typed_yaml]") {
  const DatasetYaml yaml = yaml_of(kCaptioning +
                                   "field_map: {image: 'jpg,png', caption: 'json[caption][0]'}\n"
                                   "subflavors: {a: 1}\n");
  CHECK(yaml.samples.type_name == "CaptioningSample");
  CHECK(yaml.samples.type == SampleType::kCaptioning);
  const TypedSamples samples = typed_samples_of(yaml);
  CHECK(samples ==
        TypedSamples{
            .type = SampleType::kCaptioning,
            .field_map = {.fields = {{"image", parse_field_expression("jpg,png")},
                                     {"caption", parse_field_expression("json[caption][0]")}}}});
  CHECK(yaml.samples.typed_warning.empty());
  // Only the class, as it may be written by hand, and the classes of older files.
  CHECK(typed_samples_of(yaml_of("sample_type: {__class__: TextSample}\nfield_map: {text: txt}\n"))
            .type == SampleType::kText);
  CHECK(typed_samples_of(yaml_of("__module__: megatron.energon\n__class__: VQAWebdataset\n"
                                 "field_map: {image: jpg, context: txt}\n"))
            .type == SampleType::kVqa);
}

TEST_CASE("a dataset.yaml without a type has crude samples", "[io][typed_yaml]") {
  CHECK(typed_samples_of(DatasetYaml()) == TypedSamples());
  for (const char* const text :
       {"subflavors: {a: 1}\n", "__class__: CrudeWebdataset\n",
        "__module__: megatron.energon\n__class__: CrudeWebdataset\npart_filter: [jpg]\n",
        "sample_type: {__module__: megatron.energon, __class__: CrudeSample}\n"}) {
    CAPTURE(text);
    CHECK(typed_samples_of(yaml_of(text)) == TypedSamples());
  }
}

TEST_CASE("unusable settings of typed samples are refused when typed samples are requested",
          "[io][typed_yaml]") {
  CHECK_THAT(refused_typed("sample_type: {__module__: my.samples, __class__: TextSample}\n"
                           "field_map: {text: txt}\n"),
             Catch::Contains("unknown sample type 'my.samples.TextSample'") &&
                 Catch::Contains("CaptioningSample, ImageSample") &&
                 Catch::Contains("dataset.yaml"));
  CHECK_THAT(refused_typed("__class__: MyWebdataset\nfield_map: {text: txt}\n"),
             Catch::Contains("unknown sample type 'MyWebdataset'"));
  CHECK_THAT(
      refused_typed(kCaptioning + "sample_loader: loader.py:load\npart_filter: loader.py:parts\n",
                    ErrorCode::kUnsupported),
      Catch::Contains("'loader.py:load' is a Python function"));
  CHECK_THAT(refused_typed(kCaptioning), Catch::Contains("CaptioningSample needs a field_map"));
  CHECK_THAT(refused_typed("field_map: {image: jpg}\n"), Catch::Contains("without a sample_type"));
  CHECK_THAT(refused_typed("sample_type: {__class__: CrudeSample}\nfield_map: {a: b}\n"),
             Catch::Contains("CrudeSample has no fields"));
  CHECK_THAT(refused_typed(kCaptioning + "field_map: {image: jpg}\n"),
             Catch::Contains("lacks 'caption'"));
  CHECK_THAT(refused_typed(kCaptioning + "field_map: {image: jpg, caption: txt, label: cls}\n"),
             Catch::Contains("has 'label'"));
  CHECK_THAT(refused_typed(kCaptioning + "field_map: {image: jpg, caption: 'json[a'}\n"),
             Catch::Contains("field_map.caption: invalid expression 'json[a'"));
  CHECK_THAT(
      refused_typed(kCaptioning + "field_map: {image: jpg, caption: txt}\npart_filter: [jpg]\n"),
      Catch::Contains("remove part_filter"));
}

TEST_CASE("an invalid type or map is refused with place and line", "[io][typed_yaml]") {
  CHECK_THAT(refused_typed("sample_type: CaptioningSample\n"),
             Catch::Contains("sample_type must be a mapping, line 1"));
  CHECK_THAT(refused_typed("sample_type: {__module__: megatron.energon}\n"),
             Catch::Contains("sample_type has no '__class__'"));
  CHECK_THAT(refused_typed("sample_type: {__class__: TextSample, a: b}\n"),
             Catch::Contains("a is not"));
  CHECK_THAT(refused_typed(kCaptioning + "field_map: [image, caption]\n"),
             Catch::Contains("field_map must be a mapping, line 2"));
  CHECK_THAT(refused_typed(kCaptioning + "field_map: {image: jpg, caption: [txt]}\n"),
             Catch::Contains("field_map.caption must be a string, line 2"));
  CHECK_THAT(refused_typed(kCaptioning + "sample_loader: {a: b}\n"),
             Catch::Contains("sample_loader must be a string"));
}

TEST_CASE("settings of decoders remain a warning, with a different text", "[io][typed_yaml]") {
  const DatasetYaml yaml =
      yaml_of(kCaptioning + "image_decode: torchrgb8\nfield_map: {image: jpg, caption: txt}\n");
  REQUIRE(yaml.warnings.size() == 1);
  CHECK(yaml.warnings[0] == yaml.samples.warning);
  CHECK_THAT(yaml.samples.warning,
             Catch::Contains("not applied: sample_type, image_decode, field_map; samples contain"));
  CHECK_THAT(yaml.samples.typed_warning,
             Catch::Contains("not applied: image_decode; the pipeline's decoder decides"));
}

TEST_CASE("a written dataset.yaml equals Energon's and survives a round trip", "[io][typed_yaml]") {
  TypedSamples samples{.type = SampleType::kCaptioning};
  samples.field_map.fields = {{"image", parse_field_expression("jpg,seg.png")},
                              {"caption", parse_field_expression("json[captions][-1]")}};
  CHECK(dataset_yaml_of(samples) ==
        "sample_type:\n  __module__: megatron.energon\n  __class__: CaptioningSample\n"
        "field_map:\n  image: jpg,seg.png\n  caption: json[captions][-1]\n");
  CHECK(typed_samples_of(yaml_of(dataset_yaml_of(samples))) == samples);
  CHECK(dataset_yaml_of({}) == energon::crude_dataset_yaml());
  samples.field_map.fields.pop_back();
  CHECK_THROWS_WITH(dataset_yaml_of(samples), Catch::Contains("lacks 'caption'"));
}

TEST_CASE("expressions that YAML would misread are quoted", "[io][typed_yaml]") {
  for (const char* const text :
       {"null", "True", "off",   "123",  "1.5",     "a: b", "#a", "a #b", "~",  "json[a: b]", "&a",
        "*a",   "'a'",  "\"a\"", "a\\b", "json[é]", "-a",   "!a", "%a",   "@a", "json[a\tb]"}) {
    INFO(text);
    const TypedSamples samples{.type = SampleType::kText,
                               .field_map = {.fields = {{"text", parse_field_expression(text)}}}};
    CHECK(typed_samples_of(yaml_of(dataset_yaml_of(samples))) == samples);
  }
  CHECK_THROWS_WITH(
      dataset_yaml_of({.type = SampleType::kText,
                       .field_map = {.fields = {{"text", parse_field_expression("\xff")}}}}),
      Catch::Contains("is not UTF-8"));
}

TEST_CASE("the entries of a class outside the library are kept", "[io][typed_yaml]") {
  const TempDir folder;
  const std::string path =
      folder.write(".nv-meta/dataset.yaml",
                   "__module__: my.data\n__class__: MyCrudeWebdataset\nspec: {sizes: [1, null]}\n"
                   "subflavors: {a: b}\n");
  const DatasetYaml yaml = energon::read_dataset_yaml(folder.path(), std::nullopt);
  CHECK(yaml.samples.is_foreign);
  CHECK(yaml.samples.type_name == "my.data.MyCrudeWebdataset");
  CHECK(yaml.subflavors->dump() == R"({"a":"b"})");
  CHECK_THAT(yaml.samples.warning, Catch::Contains("not applied: spec, __class__"));
  CHECK(energon::read_dataset_yaml_entries(path)->dump() ==
        R"({"__module__":"my.data","__class__":"MyCrudeWebdataset","spec":{"sizes":[1,null]},)"
        R"("subflavors":{"a":"b"}})");
  for (const char* const text :
       {"sample_type: {__module__: my.samples, __class__: TextSample}\nfield_map: {text: txt}\n",
        "__class__: MyWebdataset\n", "__module__: megatron.energonic\n__class__: TextWebdataset\n",
        "__class__: CrudeWebdataset\npart_filter: a.py:parts\n"}) {
    CAPTURE(text);
    CHECK(yaml_of(text).samples.is_foreign);
  }
  for (const char* const text :
       {"__module__: megatron.energon.flavors\n__class__: CrudeWebdataset\n",
        "sample_type: {__module__: energon_cpp, __class__: TextSample}\nfield_map: {text: txt}\n",
        "__class__: VQAWebdataset\nfield_map: {image: jpg}\n", "subflavors: {a: 1}\n"}) {
    CAPTURE(text);
    CHECK_FALSE(yaml_of(text).samples.is_foreign);
  }
}
